"""Benchmarks share one judge. Run them by `make bench` on a quiet machine; every figure is a ratio within one run."""

import os

os.environ["GOMP_SPINCOUNT"] = "0"  # as in the judge's own process; before torch is imported

import pytest

from harness.judge.judge import Judge
from harness.runs.executor import LocalExecutor
from harness.spec.content import Content


@pytest.fixture(scope="session")
def judge(tmp_path_factory):
    judge = Judge(tmp_path_factory.mktemp("cache"))
    judge.zygote.wait()
    yield judge
    judge.close()


@pytest.fixture(scope="session")
def executor(tmp_path_factory):
    """The judge as the command line uses it: in a process of its own, with an environment of its own."""
    with LocalExecutor(cache_dir=tmp_path_factory.mktemp("cache")) as executor:
        yield executor


@pytest.fixture(scope="session")
def content():
    return Content.discover()
