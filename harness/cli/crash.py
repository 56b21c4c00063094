"""The log of an error nobody foresaw."""

from __future__ import annotations

import platform
import tempfile
import traceback
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path


def write_crash_log(arguments: Sequence[str]) -> Path | str:
    """Write the traceback of the exception being handled below ``.harness/logs``, else in the temporary folder.

    Returns the file's path, or the traceback itself where nothing can be written.
    """
    import harness

    text = (
        f"kernel-gauntlet {harness.__version__}, Python {platform.python_version()}, {platform.platform()}\n"
        f"arguments: {list(arguments)!r}\n\n{traceback.format_exc()}"
    )
    name = f"error-{datetime.now(timezone.utc):%Y%m%d-%H%M%S-%f}.log"
    for folder in (Path.cwd() / ".harness" / "logs", Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8", errors="backslashreplace")
            return folder / name
        except OSError:
            continue
    return text
