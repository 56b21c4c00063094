"""torch.compile: the task's reference, compiled, as a candidate."""

from collections.abc import Iterable

from harness.agents.config import AgentError
from harness.agents.protocol import History, View
from harness.spec.baselines import compiled
from harness.spec.candidate import Candidate
from harness.spec.errors import near

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


class TorchCompile:
    """Answers with ``torch.compile(reference)``, once.

    mode: of torch.compile. dynamic: its argument of that name (true, false, or null to let it decide).
    """

    def __init__(self, mode: str = "default", dynamic: bool | None = None) -> None:
        if mode not in MODES:
            raise AgentError(f"torch.compile has no mode {mode!r}{near(str(mode), MODES)}")
        if dynamic not in (True, False, None):
            raise AgentError(f"dynamic={dynamic!r} must be true, false or null")
        self.mode = mode
        self.dynamic = dynamic

    def propose(self, view: View, history: History) -> Iterable[Candidate]:
        if len(history):
            return
        yield compiled(view.task, self.mode, self.dynamic)
