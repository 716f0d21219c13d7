"""Splits conditions of statements into conjuncts, and finds those that an index can answer."""

from __future__ import annotations

from operators.expressions.tree import Call, Column, Expression
from operators.user_aggregates.expression_code import Code


def conjuncts(condition: Expression | None) -> list[Expression]:
    """The operands of the ANDs at the top of a condition, all of which must be TRUE."""
    if condition is None:
        return []
    if isinstance(condition, Call) and condition.function == "and":
        return [part for argument in condition.arguments for part in conjuncts(argument)]
    return [condition]


def all_of(tests: list[Expression]) -> Expression | None:
    """The condition that all tests are TRUE; None without tests."""
    if len(tests) < 2:
        return tests[0] if tests else None
    return Call("and", tuple(tests), tests[0].type)


def equal_sides(test: Expression, prefix: str) -> tuple[str, Expression] | None:
    """`r3:a = value` as ("a", value), if one side is a column of the scan with the `prefix`, here `r3:`; else None."""
    if not isinstance(test, Call) or test.function != "equal":
        return None
    left, right = test.arguments
    for one, other in ((left, right), (right, left)):
        bare = one.arguments[0] if isinstance(one, Call) and one.function == "widen" else one
        if isinstance(bare, Column) and bare.name.startswith(prefix):
            return bare.name.removeprefix(prefix), other
    return None


def present(codes: list[Code]) -> str:
    """Code for the condition that no value is NULL; empty if no value can be NULL."""
    return " and ".join(f"{code.text} is not None" for code in codes if code.nullable)
