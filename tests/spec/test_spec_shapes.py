"""Shape expressions against Python's own arithmetic, and everything that must be refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.spec.errors import SpecError
from harness.spec.shapes import BOUND, evaluate, is_name, names, shape

DIMS = {"rows": 7, "cols": 12, "k_0": 3}


def _combine(inner):
    signs = st.sampled_from(["+", "-", "*", "//", "%"])
    binary = st.tuples(inner, signs, inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})")
    calls = st.tuples(st.sampled_from(["max", "min"]), st.lists(inner, min_size=2, max_size=3)).map(
        lambda t: f"{t[0]}({', '.join(t[1])})"
    )
    return binary | calls | inner.map(lambda e: f"(-{e})")


EXPRESSIONS = st.recursive(st.integers(0, 50).map(str) | st.sampled_from(sorted(DIMS)), _combine, max_leaves=6)


@given(EXPRESSIONS, st.fixed_dictionaries({name: st.integers(1, 5000) for name in DIMS}))
def test_evaluate_is_python_arithmetic(expression, dims):
    try:
        expected = eval(expression, {"__builtins__": {}, "max": max, "min": min}, dict(dims))  # built from digits above
    except ZeroDivisionError:
        with pytest.raises(SpecError, match="division by zero"):
            evaluate(expression, dims)
        return
    if abs(expected) >= BOUND:
        with pytest.raises(SpecError, match="64-bit"):
            evaluate(expression, dims)
    elif expression.count("*") <= 4:  # with more, a value on the way may leave 64 bits: 5000**5 does not
        assert evaluate(expression, dims) == expected


@given(st.text(max_size=30))
def test_any_text_gives_an_integer_or_a_spec_error(text):
    try:
        assert type(evaluate(text, DIMS)) is int
    except SpecError:
        pass


def test_integers_and_extra_names():
    assert evaluate(5, {}) == 5
    assert evaluate("2*rows*itemsize", DIMS, {"itemsize": 4}) == 56
    assert evaluate("itemsize", DIMS, [("itemsize", 2)]) == 2
    assert evaluate("max(rows)", DIMS) == 7


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("2**rows", "no power"),
        ("rows/2", "use '//'"),
        ("__import__('os')", "holds"),
        ("rows.real", "holds"),
        ("rows if cols else 1", "allowed are"),
        ("abs(rows)", "allowed are"),
        ("max(rows)(cols)", "allowed are"),
        ("rows and cols", "allowed are"),
        ("True", "allowed are"),
        ("(rows, cols)", "allowed are"),
        ("max()", "one or more"),
        ("max(*rows)", "allowed are"),
        ("1.5*rows", "holds"),
        ("rows +", "not arithmetic"),
        ("", "not arithmetic"),
        ("rows // (cols - 12)", "division by zero"),
        ("rows + 9223372036854775807", "64-bit"),
        ("*".join(["rows"] * 30), "64-bit"),
        ("(" * 190 + "1" + ")" * 190 + ")", "not arithmetic"),
        ("-" * 60 + "1", "deeper"),
        ("1+" * 300 + "1", "longer"),
    ],
)
def test_refused(expression, words):
    with pytest.raises(SpecError, match=words):
        evaluate(expression, DIMS)


def test_unknown_dimension_names_expression_and_the_near_one():
    with pytest.raises(SpecError) as error:
        evaluate("2*row", DIMS)
    assert "'2*row'" in str(error.value) and "did you mean 'rows'?" in str(error.value)


def test_bool_is_no_expression():
    with pytest.raises(SpecError, match="text or an integer"):
        evaluate(True, {})


def test_shape():
    assert shape([], DIMS) == ()
    assert shape(["rows", 3, "cols - 12"], DIMS) == (7, 3, 0)
    with pytest.raises(SpecError, match=r"'rows - 9' is negative \(-2\) at rows=7"):
        shape(["cols", "rows - 9"], DIMS)


def test_names():
    assert names("max(rows, 2*cols) + 1") == {"rows", "cols"}
    assert names(3) == set()


@pytest.mark.parametrize(("name", "good"), [("rows", True), ("x_1", True), ("1x", False), ("in", False), ("é", False)])
def test_is_name(name, good):
    assert is_name(name) is good
