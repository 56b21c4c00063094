import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.report.names import one_line, slug, visible

RESERVED = {"con", "prn", "aux", "nul", "com1", "lpt1"}


@given(st.text(st.characters(codec=None)))
def test_visible_leaves_no_control_or_format_character(text):
    for char in visible(text):
        assert char in "\t\n" or unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}


INVISIBLE_LETTERS = "\u3164\uffa0\u115f\u1160\u2800"


@given(st.text(st.characters(categories=["L", "N", "P", "Sm", "Zs"], exclude_characters=INVISIBLE_LETTERS)))
def test_visible_changes_nothing_that_can_be_seen(text):
    assert visible(text) == text


def test_visible_spells_out_what_reorders_text():
    assert visible("a\u202eb\x1b[31m") == "a⟨U+202E⟩b⟨U+001B⟩[31m"
    assert visible("overwritten\rby this") == "overwritten⟨U+000D⟩by this"
    assert visible("dos\r\nline") == "dos\nline"


@given(st.text(st.characters(codec=None)), st.integers(2, 50))
def test_one_line_is_one_line_and_short(text, limit):
    line = one_line(text, limit)
    assert len(line) <= limit and "\n" not in line and "\t" not in line


@given(st.text(st.characters(codec=None), max_size=300), st.lists(st.text(), max_size=3))
def test_slugs_suit_every_file_system(readable, identity):
    name = slug(readable, *identity)
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]{0,62}", name)
    assert name not in RESERVED


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("a", "b"), ("a", "b", "")),
        (("a", "b", "c"), ("a", "bc")),
        (("A",), ("a",)),
        (("a/b",), ("a-b",)),
        (("é",), ("e",)),
    ],
)
def test_different_things_have_different_slugs(first, second):
    assert slug(*first) != slug(*second)
