"""One judge for all of its tests: its zygote takes seconds to start."""

import pytest
import small_tasks

from harness.judge import controls, layout, timing
from harness.judge.judge import Judge
from harness.judge.oracle import Reference
from harness.judge.trials import make_layout
from harness.spec.candidate import Candidate


@pytest.fixture(scope="session")
def judge(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "MAX_SLOTS", 400)  # a contestant makes tensors of all slots: seconds, over these tests
        for module in (controls, timing):  # other work on the machine would cost a quarter of a second a block
            patch.setattr(module, "await_quiet", lambda *seconds: True)
        judge = Judge(tmp_path_factory.mktemp("cache"), preload=[])
        judge.zygote.wait()
        yield judge
        judge.close()


@pytest.fixture
def ask(judge):
    """ask(source, …) → the verdict; options as for small_tasks.request."""
    return lambda source, **options: judge.judge(small_tasks.request(source, **options))


@pytest.fixture
def seat(judge):
    """seat(source, task=, language=) → a player loaded, seated and warm, frozen; ends with the test."""
    players = []

    def one(source, *, task=small_tasks.TASK, language="python", warm=True, limits=small_tasks.TIGHT):
        case = task.cases[0]
        candidate = Candidate(source=source, language=language)
        shared = None
        if language == "cpp":
            shared, _, _ = judge.roster.builds.shared_object(
                candidate, case.dtype, judge.zygote, judge.roster.inputs, seconds=60, scratch=limits.scratch,
                memory=limits.memory)
        players.append(judge.roster.start(candidate, task, case.dtype, limits, shared_object=shared))
        layout = make_layout(task, Reference(task), case.dims, case.dtype)
        if warm:
            judge.roster.seat(players[-1], layout, limits)
        else:
            players[-1].seat(layout)
        return players[-1]

    yield one
    for player in players:
        player.close()
