"""The YAML reader: exact lines, a small schema, and refusal of everything that can bite."""

import math
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.spec.document import MAX_BYTES, MAX_NODES, dotted, parse_yaml, read_text
from harness.spec.errors import ContentNotFound, GauntletError, SpecError, near


def test_lines_of_keys_and_items():
    document = parse_yaml("a: 1\nb:\n  c: {d: 2,\n      e: 3}\n  f:\n    - 4\n    - g: 5\n", "f.yaml")
    assert document.data == {"a": 1, "b": {"c": {"d": 2, "e": 3}, "f": [4, {"g": 5}]}}
    for where, line in [(("a",), 1), (("b",), 2), (("b", "c", "d"), 3), (("b", "c", "e"), 4), (("b", "f", 1, "g"), 7)]:
        assert document.line(where) == line
    assert document.line(("b", "f", 9, "nowhere")) == 5
    assert str(document.error(("b", "f", 0), "wrong")) == "f.yaml:6: b.f[0]: wrong"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 1e-3), ("1.5", 1.5), ("-2", -2), ("0x10", 16), ("0o17", 15), ("017", 17), ("true", True), ("no", "no"),
        ("on", "on"), ("1:30", "1:30"), ("2024-01-01", "2024-01-01"), ("~", None), ("", None), ("'1'", "1"),
        ("1_000", "1_000"), (".inf", math.inf), ("-.inf", -math.inf), ("<<", "<<"),
    ],
)  # fmt: skip
def test_core_schema(text, value):
    result = parse_yaml(f"key: {text}\n").data["key"]
    assert result == value and type(result) is type(value)


def test_keys_are_text():
    assert parse_yaml("1024: a\nno: b\n~: c\n").data == {"1024": "a", "no": "b", "~": "c"}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "duplicate key 'a'.*line 1"),
        ("a: 1\nb: {c: 1,\n  c: 2}\n", 3, "duplicate key 'c'"),
        ("a: 1\nb: [1, 2\nc: 3\n", 3, "not valid YAML"),
        ("a: 1\nb: !!python/object/apply:os.system [ls]\n", 2, "tag .* is not allowed"),
        ("a: 1\nb: !!int x\n", 2, "is no int"),
        ("a: 1\nb: !!set {x}\n", 2, "tag .* is not allowed"),
        ("a: 1\n? [x]\n: 2\n", 2, "key must be plain text"),
        ("a: 1\nb: *nowhere\n", 2, "not valid YAML"),
        ("a: 1\n---\nb: 2\n", 2, "not valid YAML"),
        ("a: 1\nb: \x07\n", 2, "not valid YAML"),
        ("- 1\n", 1, "mapping"),
        ("", 1, "mapping"),
        ("a: &x [*x]\n", 1, "deeper"),
        ("a: " + "9" * 5000, 1, "is no int"),
    ],
)
def test_refused_with_line(text, line, words):
    with pytest.raises(SpecError, match=words) as error:
        parse_yaml(text, "f.yaml")
    assert error.value.line == line and str(error.value).startswith(f"f.yaml:{line}: ")


def test_alias_bomb():
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    for i in range(1, 9):
        text += f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n"
    with pytest.raises(SpecError, match=f"more than {MAX_NODES} values"):
        parse_yaml(text)


def test_plain_alias_is_fine():
    assert parse_yaml("a: &x {b: 1}\nc: *x\n").data == {"a": {"b": 1}, "c": {"b": 1}}


@pytest.mark.parametrize("text", ["[" * 1500, "[" * 999 + "]" * 999, "[" * 99 + "]" * 99, "{b: " * 40 + "1" + "}" * 40])
def test_depth(text):
    with pytest.raises(SpecError, match="deeper|not valid"):
        parse_yaml("a: " + text)


def test_size(tmp_path):
    with pytest.raises(SpecError, match="larger than"):
        parse_yaml("a: " + "x" * MAX_BYTES)
    (tmp_path / "big").write_bytes(b"x" * 101)
    with pytest.raises(SpecError, match="larger than 100 bytes"):
        read_text(tmp_path / "big", 100)


def test_read_text_says_where_it_is_not_utf8(tmp_path):
    (tmp_path / "bad").write_bytes(b"a\nb\n\xff\n")
    with pytest.raises(SpecError, match="not UTF-8") as error:
        read_text(tmp_path / "bad")
    assert error.value.line == 3
    with pytest.raises(SpecError, match="cannot be read: No such file"):
        read_text(tmp_path / "missing")


def test_what_might_never_end_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, words in ((tmp_path / "pipe", "not a regular file"), ("/dev/zero", "not a regular file"),
                        (tmp_path, "Is a directory")):
        with pytest.raises(SpecError, match=f"cannot be read: {words}"):
            read_text(path)


@given(st.text(max_size=60))
def test_any_text_parses_or_is_refused_cleanly(text):
    try:
        assert isinstance(parse_yaml(text).data, dict)
    except SpecError:
        pass


def test_dotted():
    assert dotted(("inputs", "x", "shape", 0)) == "inputs.x.shape[0]"


def test_near():
    assert near("sofmax", ["softmax", "matmul"]) == " — did you mean 'softmax'?"
    assert near("zzz", ["b", "a"]) == " — known: a, b"
    assert near("zzz", []) == " — there are none"
    assert near("zzz", [f"n{i:02}" for i in range(20)]).endswith("n11 and 8 more")


def test_errors_carry_their_place_and_are_ordered():
    two = SpecError.of([SpecError("late", "f", 9), SpecError("early", "f", 2)])
    assert str(two) == "f:2: early\nf:9: late" and [p.line for p in two.problems] == [2, 9]
    assert isinstance(two, GauntletError) and two.exit_code == 2
    one = SpecError("alone", "f")
    assert SpecError.of([one]) is one and str(one) == "f: alone"
    missing = ContentNotFound("gone")
    assert isinstance(missing, FileNotFoundError) and str(missing) == "gone"
