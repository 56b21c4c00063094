import re
import shlex
import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from report_records import HOSTILE_SOURCE, write_run

from harness.report.site import SiteError, build_site
from harness.runs.record import read_results
from harness.spec.errors import GauntletError
from harness.spec.verdict import Status

VOID = {"meta", "link", "img", "br", "hr", "line", "circle"}
LOADING = {"src", "href", "srcset", "data", "action", "poster"}
HOSTILE_NAMES = [
    "<script>alert(1)</script>",
    "../../../etc/passwd",
    '" onmouseover="alert(1)',
    "{{ 7*7 }}{% raw %}",
    "a\u202egnp.exe",
    "CON",
    "javascript:alert(1)",
    "x" * 300,
]


class Page(HTMLParser):
    """A page's structure: elements with attributes, ids, text; and a complaint for every element left unclosed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())


def pages(site: Path) -> dict[Path, Page]:
    return {p: Page(p.read_text(encoding="utf-8")) for p in sorted(site.rglob("*.html"))}


def tree(site: Path) -> dict[str, bytes]:
    return {p.relative_to(site).as_posix(): p.read_bytes() for p in site.rglob("*") if p.is_file()}


def assert_sound(site: Path) -> None:
    """Every page closes its elements, loads only what is beside it, and every link leads somewhere."""
    found = pages(site)
    for path, page in found.items():
        names = {tag for tag, _ in page.tags}
        assert not names & {"script", "iframe", "object", "embed", "form", "base", "style"}, path
        ids = [a["id"] for _, a in page.tags if "id" in a]
        assert len(ids) == len(set(ids))
        for tag, attributes in page.tags:
            assert "style" not in attributes and not [n for n in attributes if n.startswith("on")], (path, tag)
            for name in LOADING & attributes.keys():
                url = urlsplit(attributes[name])
                assert not url.scheme and not url.netloc, attributes[name]
                target = (path.parent / unquote(url.path)).resolve() if url.path else path
                assert target.is_file() and target.is_relative_to(site.resolve()), (path, attributes[name])
                if url.fragment:
                    assert url.fragment in [a.get("id") for _, a in found[target].tags]


def page_of(site: Path, folder: str, start: str) -> Page:
    (path,) = (site / folder).glob(f"{start}*.html")
    return Page(path.read_text(encoding="utf-8"))


def test_every_page_is_sound(site):
    assert_sound(site)


def test_every_page_forbids_what_it_does_not_need(site):
    for path, page in pages(site).items():
        policy = [a["content"] for t, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
        assert len(policy) == 1, path
        assert dict(directive.split() for directive in policy[0].split(";")) == {
            "default-src": "'none'", "style-src": "'self'", "img-src": "'self'",
            "base-uri": "'none'", "form-action": "'none'",
        }


def test_every_page_can_be_reached_from_the_front_page(site):
    found, seen, todo = pages(site), set(), [site / "index.html"]
    while todo:
        path = todo.pop().resolve()
        if path in seen:
            continue
        seen.add(path)
        links = [urlsplit(a["href"]).path for t, a in found[path].tags if t == "a" and "href" in a]
        todo += [(path.parent / link).resolve() for link in links if link.endswith(".html")]
    assert seen == {p.resolve() for p in found}


def test_the_front_page_says_who_is_where(site):
    text = page_of(site, ".", "index").text
    for words in ("smoke@1 on cpu-example", "core@1 on cpu-other", "1–3", "6.01× [5.84, 6.19]", "wrong output", "noisy",
                  "2.21× [0.227, 21.4]", "unranked: 1 infrastructure error"):
        assert words in text, words


def test_a_task_page_holds_every_agents_answer(site):
    page = page_of(site, "task", "softmax")
    order = [page.text.index(name) for name in ("search", "handwritten", "torch-compile", "eager")]
    assert order == sorted(order)
    assert "2.04× [1.98, 2.10]" in page.text and "1823×781" in page.text and "def f(x):" in page.text


def test_an_attempt_page_holds_code_errors_figure_and_containment(site):
    page = page_of(site, "attempt", "handwritten-softmax-0")
    for words in ("return torch.softmax(x, dim=-1)", "9.00e-08", "user+pid+net+ipc+mount namespaces", "2.13.0",
                  "checked 120 of 2,400 calls", "1.84× [1.79, 1.90]"):
        assert words in page.text, words
    (image,) = [a for t, a in page.tags if t == "img"]
    assert image["src"].startswith("../figure/") and image["alt"]


def test_a_wrong_attempt_says_where(site):
    text = page_of(site, "attempt", "search-matmul-0").text
    assert "Right at 4096×4096, wrong at 3×781." in text and "expected 0.00128, got 0.0" in text


def test_a_duplicate_points_to_the_original(site):
    page = page_of(site, "attempt", "handwritten-gelu-1")
    assert "The same candidate as attempt 0" in page.text
    assert "the same as attempt 0, not judged again" in page_of(site, "run", "handwritten").text


def test_the_command_judges_the_file_that_was_published(site, results):
    text = next(p for p in (site / "attempt").glob("search-softmax-0*")).read_text()
    words = shlex.split(re.search(r'class="command">([^<]*)<', text).group(1))
    assert words[:2] == ["harness", "judge"] and words[3:] == ["--task", "softmax", "--device", "cpu"]
    path, _, entry = words[2].rpartition(":")
    assert entry == "kernel" and (results / Path(path).relative_to("results")).is_file()


def test_file_names_are_portable(site):
    for name in tree(site):
        assert re.fullmatch(r"(?:[a-z]+/)?[a-z0-9.-]{1,80}", name), name
    assert len({name.lower() for name in tree(site)}) == len(tree(site))


def test_same_records_same_bytes_in_any_order(results, site, templates, tmp_path, monkeypatch):
    # The same folders, made in another order and listed backwards.
    for run in sorted({f.parent for f in results.rglob("run.json")}, reverse=True):
        shutil.copytree(run, tmp_path / "copy" / run.relative_to(results))
    listed = Path.rglob
    monkeypatch.setattr(Path, "rglob", lambda self, pattern: reversed(sorted(listed(self, pattern))))
    again = build_site(tmp_path / "copy", tmp_path / "site", templates).parent
    monkeypatch.undo()
    assert tree(again) == tree(site)


def test_hostile_names_and_sources_stay_text(tmp_path, templates):
    said = HOSTILE_SOURCE + "\r\x07"
    verdict = {"message": said, "build_log": said, "output_tail": said, "containment": {"level": said, said: said},
               "environment": {said: [said, {said: said}]}, "phases": {said: 1.0}}
    for name in HOSTILE_NAMES:
        write_run(tmp_path / "results", name, {"softmax": 1.5}, source=HOSTILE_SOURCE, note=name, verdict=verdict)
    site = build_site(tmp_path / "results", tmp_path / "site", templates).parent
    assert_sound(site)
    for path, page in pages(site).items():
        raw = path.read_text(encoding="utf-8")
        assert not re.search("[\x00-\x08\x0b-\x1f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", raw), path
        assert "49" not in [word.strip() for word in page.words]
    front = page_of(site, ".", "index").text
    for name in ("<script>alert(1)</script>", "../../../etc/passwd", "{{ 7*7 }}{% raw %}", "a⟨U+202E⟩gnp.exe"):
        assert name in front
    shown = page_of(site, "attempt", "script-alert-1-script-softmax-0").text
    assert '"""</pre><script>alert(1)</script>"""' in shown and "⟨U+202E⟩reversed⟨U+202C⟩" in shown
    assert {p.parent.resolve() for p in site.rglob("*") if p.is_file()} <= {
        site.resolve(), *((site / sub).resolve() for sub in ("task", "run", "attempt", "figure"))
    }


def test_damaged_and_contradictory_records_are_named_and_left_out(tmp_path, templates):
    write_run(tmp_path / "results", "good", {"x": 1.5})
    bad = write_run(tmp_path / "results", "bad", {"x": 9.9})
    with open(bad / "attempts.jsonl", "a") as file:
        file.write("{}\n")
    write_run(tmp_path / "results", "absurd", {"x": float("inf")})
    site = build_site(tmp_path / "results", tmp_path / "site", templates).parent
    assert_sound(site)
    text = page_of(site, ".", "index").text
    assert "smoke@1/cpu-example/bad/" in text and "was changed after it was written" in text
    assert "absurd" in text and "no interval can have" in text
    assert str(tmp_path) not in text and "9.60" not in text


def test_several_runs_of_an_agent_are_all_shown(tmp_path, templates):
    write_run(tmp_path / "results", "a", {"x": 1.5})
    write_run(tmp_path / "results", "a", {"x": Status.runtime_error}, started="2025-03-01T00:00:00.000Z")
    site = build_site(tmp_path / "results", tmp_path / "site", templates).parent
    assert_sound(site)
    assert "newest of 2" in page_of(site, ".", "index").text
    text = page_of(site, "task", "x").text
    assert "2025-01-02 03:04 UTC" in text and "2025-03-01 00:00 UTC" in text


def test_no_results_yet(tmp_path, templates):
    (tmp_path / "results").mkdir()
    site = build_site(tmp_path / "results", tmp_path / "site", templates).parent
    assert_sound(site)
    assert "No published runs yet" in page_of(site, ".", "index").text


def test_refusals(tmp_path, templates, results):
    with pytest.raises(GauntletError, match="no results folder"):
        build_site(tmp_path / "nowhere", tmp_path / "site", templates)
    with pytest.raises(SiteError, match="templates"):
        build_site(results, tmp_path / "site", tmp_path)
    for out in (results, results.parent, results / "site"):
        with pytest.raises(SiteError, match="inside each other"):
            build_site(results, out, templates)
    assert not (tmp_path / "site").exists() and len(read_results(results)) == 5
