"""One judge for all of its tests: its zygote takes seconds to start."""

import pytest
import small_tasks

from harness.judge.judge import Judge


@pytest.fixture(scope="session")
def judge(tmp_path_factory):
    judge = Judge(tmp_path_factory.mktemp("cache"), preload=[])
    judge.zygote.wait()
    yield judge
    judge.close()


@pytest.fixture
def ask(judge):
    """ask(source, …) → the verdict; options as for small_tasks.request."""
    return lambda source, **options: judge.judge(small_tasks.request(source, **options))
