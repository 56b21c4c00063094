"""``harness leaderboard build``: published records as static pages."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.options import discover, results_option, root_option


@click.group()
def leaderboard() -> None:
    """Build the leaderboard's pages."""


@leaderboard.command()
@results_option
@click.option("--out", type=click.Path(path_type=Path), help="Folder for the pages. Default: .harness/leaderboard.")
@root_option
def build(results: Path | None, out: Path | None, root: Path | None) -> None:
    """Build the pages from all results.

    Every record under --results is on them. Open index.html in a browser; no server is needed.
    """
    from harness.report.site import build_site

    content = discover(root)
    target = out or content.base / ".harness" / "leaderboard"
    print(build_site(results or content.results, target, content.find("leaderboard")))
