"""Where every page and figure of the site lies: names made of safe slugs, the same for the same record anywhere."""

from __future__ import annotations

from harness.report.board import Board, identity
from harness.report.names import slug
from harness.runs.record import Record


def board_id(board: Board) -> str:
    """Anchor of a board on the front page."""
    return slug(f"{board.suite}-{board.device}", board.suite, board.device, *board_tasks(board))


def board_tasks(board: Board) -> tuple[str, ...]:
    """What tells boards of one suite and device apart: the list of tasks, for lists named on the command line."""
    return board.tasks if board.named_by_tasks else ()


def task_page(board: Board, task: str) -> str:
    """Page of one task on one board."""
    return f"task/{slug(task, board.suite, board.device, *board_tasks(board))}.html"


def run_page(record: Record) -> str:
    """Page of one run of one agent."""
    return f"run/{slug(record.run.agent.name, *identity(record))}.html"


def attempt_page(record: Record, task: str, index: int) -> str:
    """Page of one attempt: its judgements and its code."""
    return f"attempt/{slug(f'{record.run.agent.name}-{task}-{index}', *identity(record), task, str(index))}.html"


def figure(record: Record, task: str, index: int) -> str:
    """The block times of an attempt's final judgement."""
    return f"figure/{slug(f'{record.run.agent.name}-{task}-{index}', *identity(record), task, str(index))}.svg"
