"""The page of rogues: what the record says, in order, and nothing where there is no record."""

import json

from harness.report.gallery import gallery_page
from harness.report.site import build_site


def rogue(name, threat, **more):
    return {"name": name, "threat": threat, "expected": "wrong_output or no gain", "status": "wrong_output", "message": "off",
            "held": True, "guard": None, **more}


def record(folder, *rogues):
    recorded = {"schema": 1, "version": "1.2.3", "when": "2026-01-02", "device": "CPU <b>", "containment": "full",
                "rogues": list(rogues), "honest": [{"name": "plain.py", "what": "honest", "status": "ok"}]}
    (folder / "gallery.json").write_text(json.dumps(recorded))


def test_rogues_are_grouped_by_threat_and_in_order(tmp_path):
    record(tmp_path, rogue("b.py", "T10 later"), rogue("a.py", "T9 O2 sooner"), rogue("c.py", "H1 patches", held=False),
           rogue("d.py", "O3 echoes", guard="without_fresh_inputs/weak"))
    page = gallery_page(tmp_path)
    assert [(g["title"], [r["name"] for r in g["rows"]]) for g in page["groups"]] == [
        ("Time", ["a.py", "b.py"]), ("Outputs", ["d.py"]), ("The harness", ["c.py"])]
    first = page["groups"][0]["rows"][0]
    assert (first["kinds"], first["what"], first["expected"]) == ("T9 O2", "Sooner", "wrong output or no gain")
    assert page["groups"][1]["rows"][0]["guard"] == "without fresh inputs"
    assert page["held"] == 3 and page["passed"] == 1


def test_without_a_record_there_is_no_page(tmp_path):
    assert gallery_page(tmp_path) is None


def test_the_page_says_what_did_not_hold_and_text_stays_text(tmp_path, templates):
    import shutil

    copy = tmp_path / "templates"
    shutil.copytree(templates, copy)
    record(copy, rogue("<script>.py", "T1 <img src=x>", held=False))
    (tmp_path / "results").mkdir()
    build_site(tmp_path / "results", tmp_path / "site", copy)
    html = (tmp_path / "site" / "gallery.html").read_text()
    assert "1 did not" in html and "not held" in html and "<script>" not in html and "<img src=x" not in html
    assert "CPU &lt;b&gt;" in html and 'href="gallery.html"' in (tmp_path / "site" / "index.html").read_text()
