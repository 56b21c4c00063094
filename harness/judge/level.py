"""The level of containment that a contestant got, in one phrase, and whether a stranger's candidate may be run at it."""

from __future__ import annotations

from harness.spec.errors import GauntletError


class Uncontained(GauntletError):
    """This system does not contain a candidate well enough, and nobody vouches for it."""

    def __init__(self, level: dict):
        super().__init__(f"candidates cannot be contained on this system ({level['level']}); `harness doctor` says what is "
                         "refused and why. What you trust can be run with --unsafe, and the record says so")


def describe(level: dict) -> str:
    """One phrase for a level: "full" with everything this version has, else "reduced" and what lacks, or "none"."""
    lacking = [name for name in ("user", "pid", "mount", "net", "ipc") if name not in level["namespaces"]]
    ends = f"; frozen by {level['freezer']}; memory bound by {level['memory_limit']}"
    if len(lacking) == 5 and not _has(level, "landlock"):
        return "none" + ends
    parts = [f"no {name} namespace" for name in lacking]
    parts += [] if level["private_root"] else ["the machine's own files"]
    parts += [] if level["fresh_proc"] else ["only its own entry of /proc" if level["private_root"] else "the machine's own /proc"]
    parts += [] if _has(level, "landlock") else ["no Landlock"]
    parts += [] if _has(level, "seccomp") else ["no seccomp"]
    parts += [] if _has(level, "gate") else ["new processes while timed"]
    return ("reduced: " + ", ".join(parts) if parts else "full: namespaces, private root, Landlock, seccomp") + ends


def is_contained(level: dict) -> bool:
    """Whether it is enough for a candidate nobody vouches for: no sight of the user's files and processes, no network."""
    return {"pid", "net"} <= set(level["namespaces"]) and _has(level, "seccomp") and (
        level["private_root"] or _has(level, "landlock"))


def _has(level: dict, layer: str) -> bool:
    return str(level.get(layer, "no")).startswith("yes")
