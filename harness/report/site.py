"""The static leaderboard: a folder of HTML, SVG and CSS that needs no script and no server.

The same records give the same bytes, whatever the order in which the file system lists them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from harness.report import links, pages
from harness.report.board import Board, boards
from harness.report.figures import block_times
from harness.report.gallery import gallery_page
from harness.report.publish import SiteError, check_replaceable, publish
from harness.report.template import environment
from harness.runs.record import Record, read_results

ASSETS = ("style.css", "icon.svg")

Progress = Callable[[int, int], None]


def build_site(results_dir: Path, out_dir: Path, templates: Path, progress: Progress | None = None) -> Path:
    """Build the site of all records under `results_dir` into `out_dir` and return its index.html.

    templates: folder of ``*.html.j2``, style.css and icon.svg (the project's leaderboard/). progress: called with
    (pages written, pages in all). The site is built aside and moved into place when whole, so an earlier one stays
    until then. Damaged records are left out and named at the foot of the front page.

    Raises SiteError (a GauntletError) when `out_dir` is something that must not be overwritten, when the templates
    are not there, or when the two folders lie inside each other; GauntletError when `results_dir` does not exist.
    """
    # A path made absolute without following a last symbolic link, which `publish` refuses.
    out_dir = Path(os.path.abspath(out_dir))
    results_dir = results_dir.resolve()
    _check_apart(results_dir, out_dir.resolve())
    check_replaceable(out_dir)
    env = environment(templates)
    skipped: list[tuple[str, str]] = []

    def skip(path: Path, why: str) -> None:
        skipped.append(_skipped(results_dir, path, why))

    all_boards = boards(read_results(results_dir, skip), skip)
    lines = [f"{place}: {why}" for place, why in sorted(skipped)]

    def write(folder: Path) -> None:
        for name in ASSETS:
            shutil.copyfile(templates / name, folder / name)
        for sub in ("task", "run", "attempt", "figure"):
            (folder / sub).mkdir()
        rogues = gallery_page(templates)
        put = _Writer(folder, env, progress, total=_count(all_boards) + bool(rogues))
        put.page("index.html", "index.html.j2", {**pages.front_page(all_boards, lines), "gallery": bool(rogues)})
        if rogues:
            put.page("gallery.html", "gallery.html.j2", rogues)
        for board in all_boards:
            for task in board.tasks:
                put.page(links.task_page(board, task), "task.html.j2", pages.task_page(board, task))
            for record in board.records:
                put.page(links.run_page(record), "run.html.j2", pages.run_page(board, record))
                _write_attempts(put, board, record)

    try:
        publish(out_dir, write)
    except OSError as error:
        why = error.strerror or error
        raise SiteError(f"{out_dir}: cannot be written ({why}); an earlier site there is unchanged") from error
    return out_dir / "index.html"


class _Writer:
    def __init__(self, folder: Path, env: object, progress: Progress | None, total: int) -> None:
        self.folder, self._env, self._progress, self._total, self._done = folder, env, progress, total, 0

    def page(self, name: str, template: str, context: pages.Page) -> None:
        html = self._env.get_template(template).render(context)  # type: ignore[attr-defined]
        (self.folder / name).write_text(html, encoding="utf-8", newline="\n")
        self._done += 1
        if self._progress:
            self._progress(self._done, self._total)


def _write_attempts(put: _Writer, board: Board, record: Record) -> None:
    for task in sorted({row.task for row in record.attempts}):
        for index, judged in pages.attempts_of(record, task).items():
            final = judged.get("final")
            svg = block_times(final.result) if final and final.result else None
            name = links.figure(record, task, index) if svg else None
            if svg and name:
                (put.folder / name).write_bytes(svg)
            context = pages.attempt_page(board, record, task, index, name)
            put.page(links.attempt_page(record, task, index), "attempt.html.j2", context)


def _count(all_boards: list[Board]) -> int:
    attempts = {(r.run.id, row.task, row.index) for b in all_boards for r in b.records for row in r.attempts}
    return 1 + sum(len(b.tasks) + len(b.records) for b in all_boards) + len(attempts)


def _skipped(results_dir: Path, path: Path, why: str) -> tuple[str, str]:
    """Place and reason of a damaged record, without the local folder it lies in."""
    place = path.relative_to(results_dir).as_posix() if path.is_relative_to(results_dir) else path.name
    return place, why.replace(str(path), "this record")


def _check_apart(results_dir: Path, out_dir: Path) -> None:
    if out_dir == results_dir or out_dir in results_dir.parents or results_dir in out_dir.parents:
        raise SiteError(f"{out_dir}: the site and the results {results_dir} must not lie inside each other; "
                        "choose another folder for the site")
