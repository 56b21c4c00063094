"""Search: fill a tunable kernel template with the parameters a sampler proposes, one configuration at a time."""

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from harness.agents.protocol import History, View
from harness.search.samplers import find_sampler
from harness.search.space import Space, load_space
from harness.spec.candidate import Candidate
from harness.spec.errors import SpecError


class Search:
    """Parameter search over the space that belongs to a task.

    sampler: exhaustive, random, hill_climb or tpe (needs optuna).
    space: a ``*.space.yaml`` to use instead of the shipped ``templates/<task>.space.yaml``: its path, or its name
        among the templates without the ending. It answers its own task only.
    A task without a space gets no answer.
    """

    def __init__(self, sampler: str = "hill_climb", space: str | None = None) -> None:
        self.sampler = find_sampler(sampler)
        self.space = space

    def propose(self, view: View, history: History) -> Iterable[Candidate]:
        space = self._space(view)
        if space is None:
            return
        judged = []
        for attempt in history.attempts:
            if space.holds(attempt.candidate.parameters):
                result = attempt.result
                score = result.speedup.value if result.status == "ok" and result.speedup else None
                judged.append((space.validate(attempt.candidate.parameters), score))
        configuration = self.sampler(space, judged, view.rng(len(history)))
        if configuration is not None:
            yield space.candidate(configuration)

    def _space(self, view: View) -> Space | None:
        task = view.task.name
        if self.space is None:
            try:
                path = view.content(f"templates/{task}.space.yaml")
            except FileNotFoundError:
                return None
            space = _load(path)
            if space.task != task:
                raise SpecError(f"task: {space.task!r} must be {task!r}, as the file's name says", path)
            return space
        is_path = self.space.endswith((".yaml", ".yml"))
        space = _load(Path(self.space) if is_path else view.content(f"templates/{self.space}.space.yaml"))
        return space if space.task == task else None


def _load(path: Path) -> Space:
    try:
        changed = path.stat().st_mtime_ns
    except OSError:
        changed = 0  # load_space says what is wrong
    return _cached(path.absolute(), changed)


@lru_cache(maxsize=64)
def _cached(path: Path, changed: int) -> Space:
    return load_space(path)
