"""The seam to the judge: whatever takes a request and returns a verdict."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from harness.spec.verdict import JudgeRequest, JudgeResult


@runtime_checkable
class Executor(Protocol):
    """The only way to the judge: a local process per device, later several devices and other hosts."""

    def start(self) -> None:
        """Get ready without waiting for it, so that it overlaps with what comes before the first `submit`. Optional."""
        ...

    def submit(self, request: JudgeRequest) -> JudgeResult:
        """Judge one candidate; blocks. A machine's failure is a result with status infra_error.

        Raises harness.spec.errors.GauntletError only when the request itself makes no sense.
        """
        ...

    def facts(self) -> dict[str, Any]:
        """Facts of the device: at least ``name``; JSON-able."""
        ...
