"""The Jinja2 environment of the site: everything printed is escaped, and hidden characters are spelled out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.report import words
from harness.report.names import visible
from harness.report.publish import SiteError
from harness.spec.verdict import Status

if TYPE_CHECKING:
    from jinja2 import Environment
    from pydantic import BaseModel

LOG_LIMIT = 20_000
_UNSURE = {Status.noisy, Status.unsupported, Status.infra_error}


def environment(templates: Path) -> Environment:
    """Templates from `templates` (``*.html.j2``), autoescaped, undefined names an error.

    Raises SiteError when the folder holds no templates.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    if not (templates / "base.html.j2").is_file():
        raise SiteError(f"{templates}: holds no leaderboard templates (base.html.j2); name the leaderboard folder")
    env = Environment(
        loader=FileSystemLoader(templates),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    env.filters.update(
        ratio=words.ratio,
        interval=lambda e: words.interval(e.low, e.high),
        number=words.number,
        seconds=words.seconds,
        duration=words.duration,
        shape=words.shape,
        named_shape=words.named_shape,
        status_word=words.status_word,
        status_class=status_class,
        excerpt=excerpt,
    )
    return env


def _finalize(value: Any) -> Any:
    # Markup is what our own code made from escaped pieces; any other text may be a stranger's.
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return visible(value)
    return value


def status_class(status: Status | str) -> str:
    """CSS class of a status: good, unsure or bad. From a fixed set, whatever the record says."""
    if status == Status.ok:
        return "good"
    return "unsure" if status in _UNSURE else "bad"


def excerpt(text: str, limit: int = LOG_LIMIT) -> str:
    """The last `limit` characters of a log, saying how many came before."""
    text = text.rstrip()
    return text if len(text) <= limit else f"… {len(text) - limit:,} characters before\n{text[-limit:]}"


def facts(*sources: dict[str, Any] | BaseModel, limit: int = 120) -> list[tuple[str, str]]:
    """Nested mappings as (dotted key, one-line text) pairs, in order; at most `limit`, the rest is counted."""
    from harness.report.names import one_line

    pairs: list[tuple[str, str]] = []

    def add(key: str, value: Any) -> None:
        if hasattr(value, "model_dump"):
            value = value.model_dump(mode="json")
        if isinstance(value, dict):
            for name, inner in value.items():
                add(f"{key}.{name}" if key else str(name), inner)
        elif isinstance(value, (list, tuple)) and not any(isinstance(v, (dict, list)) for v in value):
            pairs.append((one_line(key, 80), one_line(", ".join(map(str, value)) or "none", 300)))
        elif isinstance(value, (list, tuple)):
            for number, inner in enumerate(value):
                add(f"{key}.{number}", inner)
        else:
            text = "none" if value is None else ("yes" if value else "no") if isinstance(value, bool) else value
            pairs.append((one_line(key, 80), one_line(text, 300)))

    for source in sources:
        add("", source)
    return pairs if len(pairs) <= limit else [*pairs[:limit], ("…", f"{len(pairs) - limit} more in the record")]
