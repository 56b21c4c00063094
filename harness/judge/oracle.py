"""The reference, run by the judge: in float64 it is the oracle that decides, in the case's dtype it only calibrates.

The reference is trusted code (DESIGN section 2): ours, or that of the user who asks for a verdict. It is the only code
of a task that the judge executes.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Sequence

import torch

from harness.judge.double import in_double
from harness.judge.watch import inside_reference
from harness.spec.errors import SpecError
from harness.spec.task import Task


# The judge has no terminal: an interrupt in its process is the reference's own.
_RAISED = (Exception, SystemExit, KeyboardInterrupt)


class Reference:
    """A task's reference, callable on lists of tensors.

    Raises SpecError when the source cannot be executed or the reference raises on its own inputs.
    """

    def __init__(self, task: Task):
        self.task = task
        name = f"gauntlet_reference_{task.content_hash[:12]}"
        module = types.ModuleType(name)
        module.__file__ = task.source_file or name
        sys.modules[name] = module
        try:
            with inside_reference():
                exec(compile(task.reference_source, f"<reference of {task.name}>", "exec"), module.__dict__)
                entry = getattr(module, task.reference_entry)
                if isinstance(entry, type):
                    entry = entry(*getattr(module, "get_init_inputs", list)()).eval()
            if isinstance(getattr(module, task.reference_entry), type):
                if next(iter(entry.state_dict()), None) is not None:
                    raise TypeError("references with weights of their own are not judged by this version: "
                                    "make the weights inputs of the task")
            self.call = entry
            self._scores = getattr(module, "scores", None)
            if task.compare == "selection" and not callable(self._scores):
                raise TypeError("compare: selection needs a function `scores` beside it, with the same arguments, that "
                                "returns what is selected from")
        except _RAISED as error:
            hint = ("; name the folder it lies in with --pythonpath" if isinstance(error, ModuleNotFoundError) else "")
            raise SpecError(f"task {task.name}: the reference {task.reference} cannot be loaded: "
                            f"{type(error).__name__}: {error}{hint}") from error

    def outputs(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The reference's outputs as a list of contiguous tensors, in the dtype of the inputs."""
        before = [tensor._version for tensor in inputs]
        try:
            with torch.no_grad(), inside_reference():
                result = self.call(*inputs, **self.task.args)
        except _RAISED as error:
            shapes = ", ".join(f"{name}={list(t.shape)}" for name, t in zip(self.task.inputs, inputs, strict=True))
            raise SpecError(f"task {self.task.name}: the reference {self.task.reference} raised on {shapes}: "
                            f"{type(error).__name__}: {error}") from error
        for name, tensor, version in zip(self.task.inputs, inputs, before, strict=True):
            if tensor._version != version:
                raise SpecError(f"task {self.task.name}: the reference {self.task.reference} writes into its input "
                                f"{name}, so that its answer would be that to other inputs; let it work on a clone")
        results = list(result) if isinstance(result, (tuple, list)) else [result]
        if len(results) != self.task.outputs or not all(isinstance(r, torch.Tensor) for r in results):
            found = ", ".join("a tensor" if isinstance(r, torch.Tensor) else type(r).__name__ for r in results)
            raise SpecError(f"task {self.task.name}: the reference {self.task.reference} returned {found or 'nothing'}; "
                            f"the task declares {self.task.outputs} tensor{'s' if self.task.outputs > 1 else ''} "
                            "(`outputs`)")
        return [r.contiguous() for r in results]

    def scores(self, inputs: Sequence[torch.Tensor], *, double: bool = False) -> torch.Tensor:
        """What a selection task selects from, [..., n]: float64 from inputs in float64, or in the inputs' own dtype."""
        given = _doubled(inputs) if double else list(inputs)
        try:
            with torch.no_grad(), inside_reference(), in_double() if double else contextlib.nullcontext():
                found = self._scores(*given, **self.task.args)
        except _RAISED as error:
            raise SpecError(f"task {self.task.name}: `scores` of the reference {self.task.reference} raised: "
                            f"{type(error).__name__}: {error}") from error
        return found.double() if double else found

    def oracle(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The same in float64, also where the reference asks for less; integers and booleans stay what they are."""
        with in_double():
            found = self.outputs(_doubled(inputs))
        return [one.double() if one.is_floating_point() else one for one in found]


def _doubled(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [one.double() if one.is_floating_point() else one for one in inputs]
