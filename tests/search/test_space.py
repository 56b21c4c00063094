"""Parameter spaces: what is valid, in which order, how it is written into a template, and what the loader refuses."""

import itertools
import random

import pytest

from harness.search.space import load_space
from harness.spec.errors import SpecError

GOOD = """\
schema: 1
task: toy
template: toy.cpp
parameters:
  BLOCK: {powers_of_two: [4, 32], default: 8}
  VEC: {range: [2, 8, 2], default: 4}
  SCHEDULE: {values: [static, "dynamic, 16"], default: static}
constraints:
  - BLOCK % VEC == 0
  - SCHEDULE == 'static' or BLOCK > 4
flags: ["-mprefer-vector-width={BLOCK}"]
"""


def load(tmp_path, text=GOOD):
    (tmp_path / "toy.cpp").write_text("// one\nint two = oops;\n")
    path = tmp_path / "toy.space.yaml"
    path.write_text(text)
    return load_space(path)


@pytest.fixture
def space(tmp_path):
    return load(tmp_path)


def test_configurations_are_the_filtered_product_in_canonical_order(space):
    expected = [
        {"BLOCK": b, "VEC": v, "SCHEDULE": s}
        for b, v, s in itertools.product([4, 8, 16, 32], [2, 4, 6, 8], ["static", "dynamic, 16"])
        if b % v == 0 and (s == "static" or b > 4)
    ]
    assert list(space.configurations()) == expected
    assert space.size == len(expected) == 20
    assert space.default == {"BLOCK": 8, "VEC": 4, "SCHEDULE": "static"}


def test_neighbours_differ_by_one_step_in_one_parameter_and_are_valid(space):
    found = space.neighbours({"VEC": 4, "BLOCK": 8, "SCHEDULE": "static"})
    assert found == [
        {"BLOCK": 4, "VEC": 4, "SCHEDULE": "static"},
        {"BLOCK": 16, "VEC": 4, "SCHEDULE": "static"},
        {"BLOCK": 8, "VEC": 2, "SCHEDULE": "static"},  # VEC=6 does not divide 8
        {"BLOCK": 8, "VEC": 4, "SCHEDULE": "dynamic, 16"},
    ]
    for configuration in space.configurations():
        for other in space.neighbours(configuration):
            assert configuration in space.neighbours(other)


def test_key_does_not_depend_on_order_and_separates_configurations(space):
    assert space.key({"VEC": 4, "SCHEDULE": "static", "BLOCK": 8}) == space.key(space.default)
    assert len({space.key(c) for c in space.configurations()}) == space.size


def test_random_draws_every_valid_configuration(space):
    rng = random.Random(1)
    drawn = {space.key(space.random(rng)) for _ in range(600)}
    assert drawn == {space.key(c) for c in space.configurations()}


@pytest.mark.parametrize(
    "configuration, message",
    [
        ({"BLOCK": 8, "VEC": 4, "SCHEDULE": "static", "BLOK": 1}, "unknown parameter 'BLOK'.*BLOCK"),
        ({"BLOCK": 8, "VEC": 4}, "'SCHEDULE' is missing; it may be static, dynamic, 16"),
        ({"BLOCK": 9, "VEC": 4, "SCHEDULE": "static"}, "BLOCK=9 is not allowed; it may be 4, 8, 16, 32"),
        ({"BLOCK": 8, "VEC": 6, "SCHEDULE": "static"}, "constraint 'BLOCK % VEC == 0' does not hold at BLOCK=8, VEC=6"),
    ],
)
def test_validate_names_what_is_valid(space, configuration, message):
    with pytest.raises(SpecError, match=message):
        space.validate(configuration)
    assert not space.holds(configuration)


def test_candidate_defines_parameters_and_keeps_the_templates_lines(space):
    candidate = space.candidate({"VEC": 8, "BLOCK": 16, "SCHEDULE": "dynamic, 16"})
    assert candidate.source == (
        '#define BLOCK 16\n#define VEC 8\n#define SCHEDULE dynamic, 16\n#line 1 "toy.cpp"\n// one\nint two = oops;\n'
    )
    assert candidate.flags == ["-mprefer-vector-width=16"]
    assert candidate.parameters == {"BLOCK": 16, "VEC": 8, "SCHEDULE": "dynamic, 16"}
    assert (candidate.language, candidate.entry) == ("cpp", "kernel")


@pytest.mark.parametrize(
    "old, new, line, message",
    [
        ("powers_of_two: [4, 32]", "powers_of_two: [4, 33]", 5, "both powers of two"),
        ("powers_of_two: [4, 32]", "powers_of_to: [4, 32]", 5, "unknown key.*powers_of_two"),
        ("powers_of_two: [4, 32], ", "", 5, "exactly one of values, range, powers_of_two"),
        ("range: [2, 8, 2]", "range: [8, 2, 2]", 6, "low <= high"),
        ("range: [2, 8, 2], default: 4", "range: [2, 8, 2], default: 5", 6, "5 is not allowed; it may be 2, 4, 6, 8"),
        ("range: [2, 8, 2]", "range: [0, 99999999999, 1]", 6, "more than 1,000,000 values"),
        ("range: [2, 8, 2]", "range: [0, 300000, 1]", 4, "combinations; at most 1,000,000"),
        ('[static, "dynamic, 16"]', '[static, "x) int y;"]', 7, "may hold only"),
        ('[static, "dynamic, 16"]', '["static", static]', 7, "lists a value twice"),
        ("  VEC:", "  vec:", 6, "write it in capitals"),
        ("BLOCK % VEC == 0", "BLOCK % VECT == 0", 9, "unknown parameter 'VECT'.*VEC"),
        ("BLOCK % VEC == 0", "BLOCK == 4", 9, "the defaults do not meet 'BLOCK == 4'"),
        ("BLOCK % VEC == 0", "SCHEDULE + 1 == 4", 9, "cannot calculate"),
        ("template: toy.cpp", "template: toi.cpp", 3, "no 'toi.cpp' beside it.*toy.cpp"),
        ("template: toy.cpp", "template: ../toy.cpp", 3, "must be the name of a file beside"),
        ("{BLOCK}", "{BLOC}", 11, "unknown parameter 'BLOC'.*BLOCK"),
        ("task: toy", "tusk: toy", 2, "unknown key.*task"),
        ("schema: 1", "schema: 2", 1, "newer than this program"),
    ],
)
def test_loader_says_where_and_what(tmp_path, old, new, line, message):
    assert old in GOOD
    with pytest.raises(SpecError, match=message) as raised:
        load(tmp_path, GOOD.replace(old, new, 1))
    assert any(p.line == line and p.file.endswith("toy.space.yaml") for p in raised.value.problems), raised.value


def test_a_constraint_that_fails_later_names_its_line(tmp_path):
    space = load(tmp_path, GOOD.replace("BLOCK % VEC == 0", "BLOCK % (VEC - 8) == 0"))
    with pytest.raises(SpecError, match="division by zero at .*VEC=8") as raised:
        list(space.configurations())
    assert raised.value.line == 9


PYTHON = """\
schema: 1
task: toy
template: toy.py
language: python
parameters:
  BLOCK: {powers_of_two: [4, 32], default: 8}
  MODE: {values: [fast, "slow, sure"], default: fast}
"""
SOURCE = """\
'''Doc: BLOCK = 1'''
import math
ÄÖ = "ß"; BLOCK = 64  # BLOCK = 3
MODE = 'x'


def kernel(x):
    BLOCK_ = BLOCK
    return x * BLOCK if MODE == "fast" else math.nan
"""


def load_python(tmp_path, source=SOURCE, text=PYTHON):
    (tmp_path / "toy.py").write_text(source, encoding="utf-8")
    (tmp_path / "toy.space.yaml").write_text(text)
    return load_space(tmp_path / "toy.space.yaml")


def test_in_a_python_template_the_assigned_values_are_replaced_and_nothing_else(tmp_path):
    space = load_python(tmp_path)
    candidate = space.candidate({"MODE": "slow, sure", "BLOCK": 32})
    assert (candidate.language, candidate.entry, candidate.flags) == ("python", "kernel", [])
    assert candidate.parameters == {"BLOCK": 32, "MODE": "slow, sure"}
    assert candidate.source == SOURCE.replace("BLOCK = 64", "BLOCK = 32").replace("MODE = 'x'", "MODE = 'slow, sure'")
    names: dict = {}
    exec(space.candidate(space.default).source, names)
    assert names["BLOCK"] == 8 and names["kernel"](2) == 16


@pytest.mark.parametrize("source, words", [
    ("MODE = 1\n", "toy.space.yaml:6: parameters.BLOCK: toy.py must assign BLOCK once at its top level"),
    ("MODE = 1\nBLOCK = 1\nBLOCK = 2\n", "it does so 2 times"),
    ("MODE = 1\ndef f():\n    BLOCK = 1\n", "it does so 0 times"),
    ("MODE = 1\nBLOCK = 2 * 4\n", "toy.py:2: BLOCK must be a plain number or text"),
    ("MODE = 1\nBLOCK = (\n4)\n", "toy.py:2: BLOCK must be a plain number or text on one line"),
    ("MODE = 1\nBLOCK = (\n", "toy.py:2: is not valid Python"),
])
def test_a_python_template_that_cannot_be_filled(tmp_path, source, words):
    with pytest.raises(SpecError) as error:
        load_python(tmp_path, source)
    assert words in str(error.value)


def test_a_python_template_has_no_flags(tmp_path):
    with pytest.raises(SpecError, match="has no compiler flags"):
        load_python(tmp_path, text=PYTHON + 'flags: ["-O2"]\n')


def test_a_part_of_a_space(space):
    chosen = [space.key(c) for c in space.configurations()][3::4]
    part = space.only(chosen)
    assert [part.key(c) for c in part.configurations()] == chosen and part.size == len(chosen)
    assert part.holds(part.default) and not part.holds(next(iter(space.configurations())))
    assert all(part.key(c) in chosen for c in part.neighbours(part.default))
