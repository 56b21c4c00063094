"""Compiled candidates and warm compile caches, kept by content. Compiling happens inside a contained contestant; the
judge moves the bytes into the cache itself, and contestants only ever get read-only descriptors of it.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from harness.judge.arena import Arena
from harness.judge.build_key import COMPILER, built_path, compile_flags, compiler_identity, key
from harness.judge.contestants import Lost, MachineFault, Zygote
from harness.spec.candidate import Candidate
from harness.spec.errors import GauntletError

_ALLOWED_FLAG = re.compile(r"-(D[A-Za-z_]\w*(=[\w.+\-]*)?|O[0-3s]|Ofast|f[a-z][\w\-]*(=[\w.,+\-]+)?|m[a-z][\w\-.]*(=[\w.,+\-]+)?|std=[\w+]+|W[a-z\-]*|w)")
_REFUSED_FLAG = re.compile(r"-f(plugin|dump|profile|save|auto-profile|sanitize|record|file-prefix|debug)")


class Builds:
    """The cache folder: `<root>/so/<key>.so` and `<root>/warm/<key>.tar`, files written once and renamed into place."""

    def __init__(self, root: Path):
        self.root = root
        for name in ("so", "warm"):
            try:
                (root / name).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise GauntletError(f"the build cache {root} cannot be made: {error.strerror}; "
                                    "set GAUNTLET_CACHE to a folder that can be written") from error

    def shared_object(self, candidate: Candidate, dtype: str, zygote: Zygote, inputs: Arena, *, seconds: float,
                      scratch: int, memory: int) -> tuple[Path, str, bool]:
        """(path, compiler's log, whether it came from the cache) of a C++ candidate built for one dtype.

        Raises Lost("compile_error") with the compiler's words, or for a flag that is not allowed.
        """
        for flag in candidate.flags:
            if not _ALLOWED_FLAG.fullmatch(flag) or _REFUSED_FLAG.match(flag):
                raise Lost("compile_error", f"compiler flag {flag!r} is not allowed; -D, -O, -f, -m, -W and -std are")
        flags, path = compile_flags(candidate, dtype), built_path(self.root, candidate, dtype)
        if path.exists():
            return path, "", True
        outputs = Arena(64 * 2**20, contestants_may_write=True)
        contestant = zygote.spawn(inputs, outputs, memory=memory, scratch=scratch)
        try:
            reply = contestant.ask({"op": "build", "source": candidate.source, "compiler": COMPILER, "flags": flags,
                                    "seconds": seconds}, seconds + 10, what="the compilation")
            contestant.freeze()
            if "missing" in reply:  # no code of the candidate's has run in here
                raise MachineFault(f"no C++ compiler: {COMPILER} is not installed")
            size, log = reply.get("built"), reply.get("log", "")
            if not isinstance(size, int) or not 0 < size <= outputs.size:
                raise Lost("tampered", "the build ended with a size that cannot be")
            self._keep(path, bytes(outputs.view[:size]))
            return path, log if isinstance(log, str) else "", False
        finally:
            contestant.close()
            outputs.close()

    def warm_path(self, candidate: Candidate, dtype: str, versions: dict) -> Path:
        """Where the warm compile caches of a Python candidate are kept (the file may not exist yet)."""
        return self.root / "warm" / f"{key('warm', candidate.hash, dtype, versions, compiler_identity())}.tar"

    def keep_warm(self, path: Path, data: bytes) -> None:
        """Keep what a contestant exported; only contestants of the same candidate will ever be given it."""
        self._keep(path, data)

    def _keep(self, path: Path, data: bytes) -> None:
        try:
            handle, name = tempfile.mkstemp(dir=path.parent)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.chmod(name, 0o644)
            os.replace(name, path)
        except OSError as error:
            raise GauntletError(f"the build cache cannot be written ({path.parent}: {error.strerror}); "
                                "free some space or set GAUNTLET_CACHE") from error
