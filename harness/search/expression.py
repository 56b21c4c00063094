"""Constraints of a parameter space: conditions over parameters, parsed with `ast` and never executed.

Allowed are parameter names, integers, quoted text, ``+ - * // %`` on integers, comparisons (chained ones too),
``and``/``or``/``not`` and brackets, all with Python's meaning.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Mapping

from harness.spec.errors import SpecError, near

Value = int | str
Condition = Callable[[Mapping[str, Value]], bool]
_Evaluator = Callable[[Mapping[str, Value]], Value]

MAX_LENGTH = 400
MAX_DEPTH = 40
ALLOWED = "allowed are parameters, integers, 'text', + - * // %, comparisons, and, or, not, brackets"

_ARITHMETIC = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def condition(text: str, parameters: Iterable[str]) -> Condition:
    """`text` as a function from a configuration (parameter → value) to whether it holds.

    Raises SpecError for anything but a condition over `parameters`. The function raises SpecError where a
    configuration makes it divide by zero, calculate with text, or order text against an integer.
    """
    if len(text) > MAX_LENGTH:
        raise SpecError(f"constraint {text[:40]!r}… is longer than {MAX_LENGTH} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise SpecError(f"constraint {text!r} is no condition such as 'BLOCK % VEC == 0'") from None
    evaluator = _Builder(text, frozenset(parameters)).build(tree, 0)
    return lambda configuration: bool(evaluator(configuration))


class _Builder:
    """Turns a syntax tree into nested closures once, so that large spaces can be enumerated quickly."""

    def __init__(self, text: str, parameters: frozenset[str]) -> None:
        self.text = text
        self.parameters = parameters

    def wrong(self, what: str) -> SpecError:
        return SpecError(f"constraint {self.text!r}: {what}")

    def build(self, node: ast.AST, depth: int) -> _Evaluator:
        if depth > MAX_DEPTH:
            raise self.wrong(f"nested deeper than {MAX_DEPTH}")
        if isinstance(node, ast.Constant) and type(node.value) in (int, str):
            value = node.value
            return lambda _: value
        if isinstance(node, ast.Name):
            name = node.id
            if name not in self.parameters:
                raise self.wrong(f"unknown parameter {name!r}{near(name, self.parameters)}")
            return lambda configuration: configuration[name]
        if isinstance(node, ast.UnaryOp):
            return self.unary(node, self.build(node.operand, depth + 1))
        if isinstance(node, ast.BinOp):
            return self.binary(node.op, self.build(node.left, depth + 1), self.build(node.right, depth + 1))
        if isinstance(node, ast.BoolOp):
            return self.boolean(node.op, [self.build(part, depth + 1) for part in node.values])
        if isinstance(node, ast.Compare):
            return self.comparison(node.ops, [self.build(part, depth + 1) for part in (node.left, *node.comparators)])
        raise self.wrong(ALLOWED)

    def integer(self, value: Value) -> int:
        if isinstance(value, str):
            raise self.wrong(f"cannot calculate with the text {value!r}")
        return value

    def unary(self, node: ast.UnaryOp, operand: _Evaluator) -> _Evaluator:
        if isinstance(node.op, ast.Not):
            return lambda c: not operand(c)
        if isinstance(node.op, ast.USub):
            return lambda c: -self.integer(operand(c))
        if isinstance(node.op, ast.UAdd):
            return lambda c: +self.integer(operand(c))
        raise self.wrong(ALLOWED)

    def binary(self, op: ast.operator, left: _Evaluator, right: _Evaluator) -> _Evaluator:
        if type(op) not in _ARITHMETIC:
            hint = "'/' would give a fraction; use '//'" if isinstance(op, ast.Div) else ALLOWED
            raise self.wrong(hint)
        function = _ARITHMETIC[type(op)]

        def value(c: Mapping[str, Value]) -> int:
            try:
                return function(self.integer(left(c)), self.integer(right(c)))
            except ZeroDivisionError:
                at = ", ".join(f"{k}={v}" for k, v in c.items())
                raise self.wrong(f"division by zero at {at}") from None

        return value

    def boolean(self, op: ast.boolop, parts: list[_Evaluator]) -> _Evaluator:
        stops = not isinstance(op, ast.And)  # the truth value at which the rest no longer matters

        def value(c: Mapping[str, Value]) -> Value:
            for part in parts[:-1]:
                result = part(c)
                if bool(result) is stops:
                    return result
            return parts[-1](c)

        return value

    def comparison(self, ops: list[ast.cmpop], parts: list[_Evaluator]) -> _Evaluator:
        for op in ops:
            if type(op) not in _COMPARISONS:
                raise self.wrong(ALLOWED)
        functions = [_COMPARISONS[type(op)] for op in ops]

        def value(c: Mapping[str, Value]) -> bool:
            left = parts[0](c)
            for function, part in zip(functions, parts[1:]):
                right = part(c)
                try:
                    holds = function(left, right)
                except TypeError:
                    raise self.wrong(f"cannot order {left!r} and {right!r}") from None
                if not holds:
                    return False
                left = right
            return True

        return value
