import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_records import HOSTILE_SOURCE

from harness.report.highlight import code_lines, tokens
from harness.report.names import visible

SOURCE = st.text(st.sampled_from("ab1 \n\"'#/*\\<>&{}\u202e"), max_size=80)


@given(SOURCE, st.sampled_from(["python", "cpp", "unknown"]))
def test_tokens_are_the_whole_source(source, language):
    assert "".join(text for _, text in tokens(source, language)) == source


@given(SOURCE, st.sampled_from(["python", "cpp"]))
def test_marked_lines_read_as_the_source(source, language):
    shown = "\n".join(unescape(re.sub(r"<[^>]+>", "", line)) for line in code_lines(source, language))
    assert shown == visible(source[:-1] if source.endswith("\n") else source)


@pytest.mark.parametrize("language", ["python", "cpp"])
def test_source_cannot_leave_its_element(language):
    html = "\n".join(code_lines(HOSTILE_SOURCE, language))
    assert set(re.findall(r"</?(\w+)", html)) == {"span", "b"}
    assert "\u202e" not in html and "⟨U+202E⟩" in html and "⟨U+001B⟩" in html


def test_kinds():
    python = dict((text, kind) for kind, text in tokens("def f(x):  # note\n    return 'a#b', 3", "python"))
    assert python["def"] == python["return"] == "keyword"
    assert (python["# note"], python["'a#b'"], python["3"], python["f"]) == ("comment", "string", "number", "")
    cpp = dict((text, kind) for kind, text in tokens('#include <x>\n/* a\nb */ const float* s = "//";', "cpp"))
    assert (cpp["/* a\nb */"], cpp['"//"'], cpp["#include"]) == ("comment", "string", "comment")
    assert cpp["const"] == cpp["float"] == "keyword"


@pytest.mark.parametrize("piece", ["/*", '"""', "'''", '"', "'\\"])
def test_unterminated_pieces_take_the_rest_once(piece):
    assert len(list(tokens(piece + "x" * 10, "cpp"))) <= 2 and len(list(tokens(piece + "x" * 10, "python"))) <= 3
