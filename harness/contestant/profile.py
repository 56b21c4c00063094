"""What a candidate calls of PyTorch's, as the profiler sees it: a diagnostic for classification, never for a score."""

from __future__ import annotations

import time

_MOST, _LONGEST = 300, 200  # rows, and characters of a name


def profile(kernel, calls, arguments) -> dict:
    """Run the calls under torch's profiler: rows of [name, shapes, outermost, count, own µs], and the µs they took."""
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
        begun = time.perf_counter()
        for call in calls:
            kernel(*call, **arguments)
        took = time.perf_counter() - begun
    rows: dict[tuple, list] = {}
    for event in profiler.events():
        parent = event.cpu_parent
        while parent is not None and not parent.name.startswith("aten::"):
            parent = parent.cpu_parent
        key = (event.name[:_LONGEST], str(event.input_shapes)[:_LONGEST], parent is None)
        row = rows.setdefault(key, [0, 0.0])
        row[0] += 1
        row[1] += event.self_cpu_time_total
    heaviest = sorted(rows.items(), key=lambda item: -item[1][1])[:_MOST]
    return {"rows": [[*key, *row] for key, row in heaviest], "us": 1e6 * took}
