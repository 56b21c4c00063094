"""Names and text of strangers made safe to show and to store.

Everything a contestant wrote (its name, its source, its messages) may hold control characters that reorder or hide
text. `visible` spells them out; `slug` turns any name into a file name every file system accepts.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata

# Unicode's categories Cc, Cf, Cs, Co, Zl, Zp, and the letters and marks that draw nothing. Joiners and variation
# selectors are not exempt although some scripts need them: a reader of source code is better served by seeing them.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ue000-\uf8ff\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U0010ffff]"
)


def visible(text: object) -> str:
    """`text` with every invisible, bidirectional or control character written as ``⟨U+202E⟩``; tab and newline stay.

    Line ends become ``\\n`` first, so a lone carriage return cannot overwrite what a terminal already shows.
    """
    plain = str(text).replace("\r\n", "\n")
    return _HIDDEN.sub(lambda m: f"⟨U+{ord(m.group()):04X}⟩", plain)


def one_line(text: object, limit: int = 200) -> str:
    """`visible` text on one line (white space collapsed), cut to `limit` characters with an ellipsis."""
    flat = " ".join(visible(text).split())
    return flat if len(flat) <= limit else flat[: limit - 1].rstrip() + "…"


def slug(readable: str, *identity: str) -> str:
    """A portable file name stem: `readable` in lower-case ASCII, then 12 hex digits of a sha256 of all arguments.

    Different arguments give different stems even where the readable half is the same; names that some file system
    reserves (``con``), path separators, case and length are taken care of by the two halves.
    """
    plain = unicodedata.normalize("NFKD", readable).encode("ascii", "ignore").decode().lower()
    plain = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:48].strip("-") or "x"
    parts = json.dumps([readable, *identity]).encode("ascii")
    return f"{plain}-{hashlib.sha256(parts).hexdigest()[:12]}"
