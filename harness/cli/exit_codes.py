"""What the ``harness`` command ends with."""

from __future__ import annotations

OK = 0
FAILED_BAR = 1
USAGE = 2
INFRASTRUCTURE = 3
INTERRUPTED = 130
