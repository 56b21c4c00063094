"""Shape expressions: arithmetic over declared dimensions, and nothing else.

An expression is parsed with `ast` and walked; it is never compiled or executed. Allowed are integers, dimension names,
``+ - * // %``, brackets, and ``max(…)``/``min(…)``. No power: one character too many would be a number without end.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterable, Mapping

from harness.spec.errors import SpecError, near

MAX_LENGTH = 400
MAX_DEPTH = 40
BOUND = 2**63
FUNCTIONS = {"max": max, "min": min}
RESERVED = {*FUNCTIONS, "itemsize", "dtype"}

_CHARACTERS = re.compile(r"[A-Za-z0-9_+\-*/%(), ]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


def is_name(name: str) -> bool:
    """Whether `name` can name an input, an argument or a dimension: an ASCII identifier that is no Python keyword."""
    return _NAME.fullmatch(name) is not None and not keyword.iskeyword(name)


def evaluate(
    expression: str | int, dims: Mapping[str, int], extra: Mapping[str, int] | Iterable[tuple[str, int]] = ()
) -> int:
    """The value of `expression`, with Python's integer arithmetic (``//`` and ``%`` round towards −∞).

    dims: dimension → value. extra: further names with their values, e.g. ``{"itemsize": 4}``.
    Raises SpecError, naming the expression, for anything but arithmetic over these names, for a division by zero, and
    for any value, intermediate ones included, of magnitude 2⁶³ or more.
    """
    names = {**dims, **dict(extra)}
    return _value(_parse(expression), names, expression, 0)


def shape(expressions: Iterable[str | int], dims: Mapping[str, int]) -> tuple[int, ...]:
    """The shape given by one expression per axis; ``[]`` is 0-d. Raises SpecError also for a negative extent."""
    sizes = []
    for expression in expressions:
        size = evaluate(expression, dims)
        if size < 0:
            at = ", ".join(f"{k}={v}" for k, v in dims.items())
            raise SpecError(f"shape expression {str(expression)!r} is negative ({size}) at {at}")
        sizes.append(size)
    return tuple(sizes)


def names(expression: str | int) -> set[str]:
    """The names `expression` uses, max and min left out. Raises SpecError where it cannot be parsed."""
    tree = _parse(expression)
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - FUNCTIONS.keys()


def _parse(expression: str | int) -> ast.expr:
    if isinstance(expression, bool) or not isinstance(expression, (str, int)):
        raise SpecError(f"expression {expression!r} must be text or an integer")
    if isinstance(expression, int):
        return ast.Constant(expression)
    text = expression.strip()
    if len(text) > MAX_LENGTH:
        raise SpecError(f"expression {text[:40]!r}… is longer than {MAX_LENGTH} characters")
    bad = text[_CHARACTERS.match(text).end() :]  # type: ignore[union-attr]
    if bad:
        raise SpecError(f"expression {text!r} holds {bad[0]!r}; allowed are names, integers, + - * // % ( ) max min")
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise SpecError(f"expression {text!r} is not arithmetic such as '2*rows + 1'") from None


def _value(node: ast.AST, known: Mapping[str, int], expression: str | int, depth: int) -> int:
    def wrong(what: str) -> SpecError:
        return SpecError(f"expression {str(expression)!r}: {what}")

    def inner(child: ast.AST) -> int:
        return _value(child, known, expression, depth + 1)

    if depth > MAX_DEPTH:
        raise wrong(f"nested deeper than {MAX_DEPTH}")
    if isinstance(node, ast.Constant) and type(node.value) is int:
        result = node.value
    elif isinstance(node, ast.Name):
        if node.id not in known:
            raise wrong(f"unknown dimension {node.id!r}{near(node.id, known)}")
        result = known[node.id]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
        value = inner(node.operand)
        result = -value if isinstance(node.op, ast.USub) else value
    elif isinstance(node, ast.BinOp):
        result = _binary(node.op, inner(node.left), inner(node.right), wrong)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS:
        if node.keywords or not node.args:
            raise wrong(f"{node.func.id}() takes one or more plain values")
        result = FUNCTIONS[node.func.id](*[inner(a) for a in node.args]) if len(node.args) > 1 else inner(node.args[0])
    else:
        raise wrong("allowed are names, integers, + - * // % ( ) max min")
    if not -BOUND < result < BOUND:
        raise wrong("leaves the range of 64-bit integers")
    return result


def _binary(op: ast.operator, left: int, right: int, wrong) -> int:
    if isinstance(op, ast.Add):
        return left + right
    if isinstance(op, ast.Sub):
        return left - right
    if isinstance(op, ast.Mult):
        return left * right
    if isinstance(op, ast.Div):
        raise wrong("'/' would give a fraction; use '//'")
    if isinstance(op, ast.Pow):
        raise wrong("there is no power; write the product out")
    if isinstance(op, (ast.FloorDiv, ast.Mod)):
        if right == 0:
            raise wrong("division by zero")
        return left // right if isinstance(op, ast.FloorDiv) else left % right
    raise wrong("allowed are names, integers, + - * // % ( ) max min")
