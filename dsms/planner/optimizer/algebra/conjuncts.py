"""Splits predicates into conjuncts, builds conjunctions, and decides whether a rewrite may move an expression."""

from __future__ import annotations

from collections.abc import Iterable

from operators.expressions import Call, Expression, call, faultless


def conjuncts(predicate: Expression | None) -> tuple[Expression, ...]:
    """The operands of a conjunction, including those of nested conjunctions; () for no predicate."""
    if predicate is None:
        return ()
    if isinstance(predicate, Call) and predicate.function == "and":
        return tuple(part for operand in predicate.arguments for part in conjuncts(operand))
    return (predicate,)


def conjunction(parts: Iterable[Expression]) -> Expression | None:
    """The conjunction of the distinct parts; None without parts.

    >>> import pyarrow as pa
    >>> from operators.expressions import Column, to_sql
    >>> p, q = (Column(name, pa.bool_()) for name in "pq")
    >>> to_sql(conjunction([p, q, p]))
    'p AND q'
    """
    distinct = list(dict.fromkeys(parts))
    return None if not distinct else distinct[0] if len(distinct) == 1 else call("and", *distinct)


def total(expression: Expression) -> bool:
    """Whether the expression has a value on every row, that is, never puts a row in fault.

    A rewrite may evaluate any expression on fewer rows than before. It may evaluate an expression on more rows only if
    it is total; otherwise additional faults would be reported. It may drop an expression only if it is total, because a
    row in fault leaves the relation.
    """
    return faultless(expression)
