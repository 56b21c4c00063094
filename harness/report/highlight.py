"""Source code as safe HTML: numbered lines, comments, strings and keywords marked by class.

One regular expression that always moves forward, so that hostile source costs linear time; every piece is made
visible and escaped before it is marked, so nothing in it is ever HTML.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator

from harness.report.names import visible

_CPP = (
    "alignas alignof auto bool break case catch char class const constexpr continue default delete do double else enum "
    "explicit extern false float for friend goto if inline int long namespace new noexcept nullptr operator private "
    "protected public register restrict return short signed sizeof static static_assert static_cast reinterpret_cast "
    "struct switch template this throw true try typedef typename union unsigned using virtual void volatile while"
).split()
_KEYWORDS = {"python": frozenset(keyword.kwlist), "cpp": frozenset(_CPP)}

# Unterminated strings and comments run to the end of the line or text: an alternative that could fail after a long
# scan would make the scan quadratic.
_NUMBER = r"(?P<number>\b\d[\w.]*)"
_WORD = r"(?P<word>[^\W\d]\w*)"
_PYTHON_TOKENS = re.compile(
    r"(?P<comment>#[^\n]*)"
    r"|(?P<string>\"\"\"(?s:.)*?(?:\"\"\"|\Z)|'''(?s:.)*?(?:'''|\Z)"
    r"|\"(?:[^\"\\\n]|\\(?s:.))*\"?|'(?:[^'\\\n]|\\(?s:.))*'?)"
    + f"|{_NUMBER}|{_WORD}"
)
_CPP_TOKENS = re.compile(
    r"(?P<comment>//[^\n]*|/\*(?s:.)*?(?:\*/|\Z)|^[ \t]*#[ \t]*\w+)"
    r"|(?P<string>\"(?:[^\"\\\n]|\\(?s:.))*\"?|'(?:[^'\\\n]|\\(?s:.))*'?)"
    f"|{_NUMBER}|{_WORD}",
    re.MULTILINE,
)
_TOKENS = {"python": _PYTHON_TOKENS, "cpp": _CPP_TOKENS}


def tokens(source: str, language: str) -> Iterator[tuple[str, str]]:
    """(kind, text) pieces of `source`, in order and complete; kind: comment, string, number, keyword or "" ."""
    pattern, keywords = _TOKENS.get(language), _KEYWORDS.get(language, frozenset())
    if pattern is None:
        yield "", source
        return
    end = 0
    for match in pattern.finditer(source):
        if match.start() > end:
            yield "", source[end : match.start()]
        kind, text = match.lastgroup or "", match.group()
        if kind == "word":
            kind = "keyword" if text in keywords else ""
        yield kind, text
        end = match.end()
    if end < len(source):
        yield "", source[end:]


def code_lines(source: str, language: str) -> list[str]:
    """`source` as a list of Markup lines for the template, hidden characters spelled out and marked ``hidden``."""
    from markupsafe import Markup

    lines: list[list[str]] = [[]]
    for kind, text in tokens(source.replace("\r\n", "\n"), language):
        for index, piece in enumerate(text.split("\n")):
            if index:
                lines.append([])
            if piece:
                html = _spell_out(piece)
                lines[-1].append(f'<span class="t-{kind}">{html}</span>' if kind else html)
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    return [Markup("".join(pieces)) for pieces in lines]


def _spell_out(text: str) -> str:
    from markupsafe import escape

    shown = str(escape(visible(text)))
    return re.sub(r"(⟨U\+[0-9A-F]{4,6}⟩)", r'<b class="hidden">\1</b>', shown)
