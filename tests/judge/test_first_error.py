"""Of a compiler's log, the one line that is a message."""

import pytest

from harness.judge.judge import first_error


@pytest.mark.parametrize("log, line", [
    ("candidate.cpp:3:9: error: 'x' was not declared\n    3 | x\n", "candidate.cpp:3:9: error: 'x' was not declared"),
    ("In file included from a.h:2,\n   from b.h:3:\n b.h:9:1: fatal error: no.h: No such file\ncompilation terminated.",
     "b.h:9:1: fatal error: no.h: No such file"),
    ("the source defines no 'kernel'", "the source defines no 'kernel'"),
    ("two lines\nthat name none", "two lines\nthat name none"),
    ("", ""),
])
def test_the_first_error(log, line):
    assert first_error(log) == line
