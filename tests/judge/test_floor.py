"""The least time of a call: against figures computed by hand."""

import pytest
import torch
from small_tasks import make_task

from harness.judge import floor
from harness.judge.floor import Peaks, floor_seconds
from harness.judge.layout import Layout
from harness.spec.task import CostSpec


def layout(rows=1000, cols=1000):
    return Layout(make_task(), {"rows": rows, "cols": cols}, "float32", [(torch.float32, (rows, cols))])


@pytest.fixture(autouse=True)
def small_cache(monkeypatch):
    monkeypatch.setattr(floor, "cache_bytes", lambda: 1 << 20)


def test_by_default_outputs_are_written_once():
    assert floor_seconds(make_task(), layout(), Peaks(1e9, 1e9)) == pytest.approx(4e6 / 2e9)


def test_what_fits_into_the_caches_is_exempt():
    assert floor_seconds(make_task(), layout(100, 100), Peaks(1e9, 1e9)) == 0


def test_a_declared_floor_counts_bytes_and_operations():
    task = make_task(floor=CostSpec(flops="2*rows*cols", bytes="3*rows*cols*itemsize"))
    assert floor_seconds(task, layout(), Peaks(1e9, 1e12)) == pytest.approx(12e6 / 2e9)
    assert floor_seconds(task, layout(), Peaks(1e12, 1e8)) == pytest.approx(2e6 / 2e8)


def test_without_peaks_there_is_no_floor():
    assert floor_seconds(make_task(floor=CostSpec(flops=10**9)), layout(), Peaks()) == 0


def test_peaks_only_rise():
    peaks = Peaks(1e30, 0.0)
    peaks.measure(tries=1)
    assert peaks.bandwidth == 1e30 and peaks.flops > 1e6
    first = peaks.flops
    peaks.measure(tries=2)
    assert peaks.flops >= first


def test_a_task_without_a_floor_keeps_its_hash_and_one_with_it_has_another():
    plain = make_task()
    assert plain.content_hash == make_task(floor=None).content_hash
    assert plain.content_hash != make_task(floor=CostSpec(bytes=4)).content_hash
