"""Files: a folder, or one file, of a user's own kernels."""

from collections.abc import Iterable
from pathlib import Path

from harness.agents.config import AgentError
from harness.agents.kernel_file import LANGUAGES, kernel_files, read_kernel
from harness.agents.protocol import History, View
from harness.spec.candidate import Candidate


class Files:
    """Answers a task with the kernels in ``from``, each once.

    from: a file, offered for every task asked; or a folder holding ``<task>.py``, ``<task>.cpp`` and/or
        ``<task>/*.{py,cpp}``. Relative paths start at the working folder. A task without a file gets no answer.
    """

    def __init__(self, from_: str) -> None:
        self.place = Path(str(from_)).expanduser().absolute()
        if not self.place.exists():
            raise AgentError(f"from={from_}: there is no such file or folder ({self.place})")
        if self.place.is_file() and self.place.suffix not in LANGUAGES:
            raise AgentError(f"from={from_}: a kernel file ends in {' or '.join(LANGUAGES)}")

    def propose(self, view: View, history: History) -> Iterable[Candidate]:
        done = {attempt.candidate.hash for attempt in history.attempts}
        for path in self._paths(view.task.name):
            candidate = read_kernel(path)
            if candidate.hash not in done:
                done.add(candidate.hash)
                yield candidate

    def _paths(self, task: str) -> list[Path]:
        if self.place.is_file():
            return [self.place]
        beside = [self.place / f"{task}{suffix}" for suffix in sorted(LANGUAGES)]
        inside = self.place / task
        return [p for p in beside if p.is_file()] + (kernel_files(inside) if inside.is_dir() else [])
