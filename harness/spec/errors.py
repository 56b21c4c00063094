"""Errors a user can act on. The command line turns every `GauntletError` into one clear message, never a traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

SHOWN = 12


class GauntletError(Exception):
    """Base of every error whose message is meant for the user. exit_code: what the command line ends with."""

    exit_code = 2


class SpecError(GauntletError):
    """Something in a spec, a project or a content folder is wrong.

    message: what, and what to do next; file and line (from 1) say where, and come first in ``str(error)``.
    problems: the single errors when several were found together; a lone error is its own only problem.
    """

    def __init__(self, message: str, file: object | None = None, line: int | None = None) -> None:
        self.message = message
        self.file = None if file is None else str(file)
        self.line = line
        self.problems: list[SpecError] = [self]
        place = "" if self.file is None else f"{self.file}:{line}: " if line is not None else f"{self.file}: "
        super().__init__(place + message)

    @classmethod
    def of(cls, problems: Sequence[SpecError]) -> SpecError:
        """One error for all of `problems` (at least one), one line each, in the order of file and line."""
        ordered = sorted(problems, key=lambda p: (p.file or "", p.line or 0))
        if len(ordered) == 1:
            return ordered[0]
        error = cls("\n".join(str(p) for p in ordered))
        error.problems = ordered
        return error


class ContentNotFound(SpecError, FileNotFoundError):
    """No layer of the content overlay holds what was asked for."""


def near(name: str, options: Iterable[str]) -> str:
    """The end of an error message about an unknown `name`: " — did you mean 'softmax'?", or what exists instead."""
    known = sorted(set(options))
    close = difflib.get_close_matches(name, known, n=2)
    if close:
        return " — did you mean " + " or ".join(repr(c) for c in close) + "?"
    if not known:
        return " — there are none"
    more = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
    return " — known: " + ", ".join(known[:SHOWN]) + more
