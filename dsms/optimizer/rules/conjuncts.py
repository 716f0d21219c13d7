"""Predicates as sets of conjuncts, and what may be done with one of them."""

from __future__ import annotations

from collections.abc import Iterable

from operators.expressions import Call, Expression, call, compile_expression


def conjuncts(predicate: Expression | None) -> tuple[Expression, ...]:
    """The operands of a conjunction, nested ones too; none of no predicate."""
    if predicate is None:
        return ()
    if isinstance(predicate, Call) and predicate.function == "and":
        return tuple(part for operand in predicate.arguments for part in conjuncts(operand))
    return (predicate,)


def conjunction(parts: Iterable[Expression]) -> Expression | None:
    """The conjunction of the parts, each once; None of none.

    >>> import pyarrow as pa
    >>> from operators.expressions import Column, to_sql
    >>> p, q = (Column(name, pa.bool_()) for name in "pq")
    >>> to_sql(conjunction([p, q, p]))
    'p AND q'
    """
    each = list(dict.fromkeys(parts))
    return None if not each else each[0] if len(each) == 1 else call("and", *each)


def total(expression: Expression) -> bool:
    """Whether no row can be in fault, so that the expression may be evaluated on rows it was not asked for.

    A rewrite may evaluate an expression on fewer rows, but on more only where it is total: no row is reported that was
    not. It may leave out only a total one: a row in fault leaves the relation.
    """
    return compile_expression(expression).fault is None
