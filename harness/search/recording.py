"""A recorded space: the time of every configuration, measured once and for all, to replay searches on.

Made from published records of `harness run --agent search:sampler=exhaustive`, several of them if there are: the first
is what is replayed, the others time its best configurations again.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.runs.canonical import canonical_json
from harness.search.space import Key, Space
from harness.spec.errors import GauntletError, SpecError

SCHEMA = 1
RETIMED_SHARE, RETIMED_LEAST = 0.01, 50  # of the best, for the optimum


@dataclass(frozen=True)
class Recording:
    """times: every valid configuration of `space` → its time, None where it failed. Relative to eager: 1/speedup.

    again: configuration → further times. device, unit: in words.
    """

    space: Space
    times: Mapping[Key, float | None]
    again: Mapping[Key, list[float]] = field(default_factory=dict)
    device: str = ""
    unit: str = "time relative to the baseline"

    @property
    def retimed(self) -> int:
        """How many of the best configurations, as far as they count for the optimum, have been timed again."""
        return sum(bool(self.again.get(key)) for key in self._best())

    @property
    def optimum(self) -> float | None:
        """f*: the least median of the further times of the best configurations; None when they were not timed again.

        All of the best 1 %, at least 50, must have been: the winner among few would be too good again.
        """
        best = self._best()
        if not best or self.retimed < len(best):
            return None
        return min(statistics.median(self.again[key]) for key in best)

    def _best(self) -> list[Key]:
        timed = sorted((time, key) for key, time in self.times.items() if time is not None)
        count = max(RETIMED_LEAST, round(RETIMED_SHARE * len(self.times)))
        return [key for _, key in timed[:count]]


def from_attempts(space: Space, runs: Iterable[Iterable[tuple[Mapping[str, Any], float | None]]], *, device: str = "",
                  partial: bool = False) -> Recording:
    """Of runs, each (parameters, speedup or None) of its attempts, the first to be replayed.

    partial: restrict the space to what was recorded. Raises GauntletError when configurations are missing otherwise.
    """
    times: dict[Key, float | None] = {}
    again: dict[Key, list[float]] = {}
    for number, run in enumerate(runs):
        for parameters, speedup in run:
            if not space.holds(parameters):
                continue  # of another space, or of a version of this one that had other values
            key = space.key(space.validate(parameters))
            time = 1 / speedup if speedup else None
            if number == 0:
                times[key] = time
            elif time is not None:
                again.setdefault(key, []).append(time)
    missing = space.size - len(times)
    if missing and not partial:
        raise GauntletError(
            f"{len(times)} of {space.size} configurations of {space.task} were recorded, {missing} are missing; record "
            f"them all: harness run --agent search:sampler=exhaustive --tasks {space.task} --depth screen "
            f"--budget attempts={space.size} (or --partial to leave them out)")
    if not any(time is not None for time in times.values()):
        raise GauntletError(f"no configuration of {space.task} was recorded with a time")
    kept = space.only(times) if missing else space
    return Recording(kept, {kept.key(c): times[kept.key(c)] for c in kept.configurations()}, again, device)


def dump(recording: Recording) -> str:
    """The recording as the text of one JSON document, its space included."""
    space = recording.space
    names = list(space.parameters)

    def places(key: Key) -> list[int]:
        return [space.parameters[name].index(value) for name, value in key]

    return canonical_json({
        "schema": SCHEMA,
        "task": space.task,
        "device": recording.device,
        "unit": recording.unit,
        "parameters": {name: list(space.parameters[name]) for name in names},
        "default": space.default,
        # which value of each parameter, then the time
        "times": [[*places(key), time] for key, time in recording.times.items()],
        "again": [[*places(key), found] for key, found in recording.again.items()],
    }) + "\n"


def load(path: Path) -> Recording:
    """The recording in a file. Raises GauntletError when it is none."""
    from harness.spec.document import read_regular

    try:
        return loads(read_regular(path, 1 << 26).decode("utf-8", "replace"), str(path))
    except OSError as error:
        raise GauntletError(f"cannot read {path}: {error.strerror}") from None


def loads(text: str, path: str = "the recording") -> Recording:
    """The recording in the text of a file; path: what messages call it. Raises GauntletError when it is none."""
    try:
        data = json.loads(text)
        if data["schema"] != SCHEMA:
            raise GauntletError(f"{path}: recording schema {data['schema']} is not {SCHEMA}; record it anew")
        names = list(data["parameters"])
        parameters = {name: tuple(values) for name, values in data["parameters"].items()}
        whole = Space(data["task"], parameters, data["default"], place=path)

        def key(row: list) -> Key:
            return tuple((name, parameters[name][index]) for name, index in zip(names, row, strict=True))

        times = {key(row[:-1]): None if row[-1] is None else float(row[-1]) for row in data["times"]}
        again = {key(row[:-1]): [float(time) for time in row[-1]] for row in data["again"]}
        known = [time for time in times.values() if time is not None]
        if not known or not all(0 < time < float("inf") for time in known):
            raise ValueError("times must be positive")
        return Recording(whole.only(times), times, again, str(data["device"]), str(data["unit"]))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, SpecError) as error:
        raise GauntletError(f"{path} is not a recording of a space ({type(error).__name__}: {error}); "
                            "harness simulate --save writes one") from None


