import pytest

from harness.report.publish import MARKER, SiteError, publish


def write_page(text):
    return lambda folder: (folder / "index.html").write_text(text)


def test_a_second_build_replaces_the_first(tmp_path):
    out = tmp_path / "deep" / "site"
    publish(out, write_page("one"))
    (out / "old.html").write_text("left over")
    publish(out, write_page("two"))
    assert (out / "index.html").read_text() == "two" and not (out / "old.html").exists()
    assert [p.name for p in out.parent.iterdir()] == ["site"]
    assert out.stat().st_mode & 0o555 == 0o555


def test_a_failed_build_leaves_the_good_site(tmp_path):
    out = tmp_path / "site"
    publish(out, write_page("good"))

    def half(folder):
        (folder / "index.html").write_text("half")
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError):
        publish(out, half)
    assert (out / "index.html").read_text() == "good"
    assert [p.name for p in tmp_path.iterdir()] == ["site"]


def test_a_folder_of_somebody_elses_is_never_replaced(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(SiteError, match="not overwritten"):
        publish(tmp_path, write_page("x"))
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_file_or_link_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(SiteError, match="is a file"):
        publish(tmp_path / "file", write_page("x"))
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(SiteError, match="symbolic link"):
        publish(tmp_path / "link", write_page("x"))


def test_an_empty_folder_is_welcome(tmp_path):
    (tmp_path / "site").mkdir()
    assert (publish(tmp_path / "site", write_page("x")) / MARKER).is_file()
