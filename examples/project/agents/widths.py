"""Widths: doubles a template's parameter for as long as that makes the kernel faster."""

from harness.spec.candidate import Candidate


class Widths:
    def propose(self, view, history):
        best = history.best()
        if best and best.index < len(history) - 1:
            return  # the last step was none forward; yielding nothing ends the task
        width = 2 ** len(history)
        source = view.content(f"templates/{view.task.name}.cpp").read_text()
        yield Candidate(source=source, language="cpp", flags=[f"-DWIDTH={width}"], parameters={"WIDTH": width})
