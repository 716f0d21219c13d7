"""Moving a part of a predicate below a node."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pyarrow as pa

from dsms.model import logical
from dsms.optimizer.rules.conjuncts import conjunction, conjuncts, total
from operators.expressions import Call, Column, Expression, columns, walk

_COMPARISONS = frozenset(
    {"equal", "not_equal", "less", "less_or_equal", "greater", "greater_or_equal", "is_null", "is_not_null"}
)


def within(names: Collection[str]) -> Callable[[Expression], bool]:
    """The test for predicates that read these columns alone, at least one, and can be in fault on no row.

    A constant stays: below a node that has rows over nothing, such as an outer join, it would say something else.
    """
    return lambda part: set() < columns(part) <= set(names) and total(part)


def agreed(names: Collection[str]) -> Callable[[Expression], bool]:
    """As `within`, for predicates that have one value on rows that are equal: 0.0 and -0.0 are, only a comparison takes
    them for equal."""
    reads = within(names)
    return lambda part: reads(part) and not any(_tells_zeros_apart(one) for one in walk(part))


def _tells_zeros_apart(part: Expression) -> bool:
    if not isinstance(part, Call) or part.function in _COMPARISONS:
        return False
    return any(isinstance(one, Column) and _has_float(one.type) for one in part.arguments)


def _has_float(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_float(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pa.types.is_floating(kind))


def split(
    predicate: Expression | None, moves: Callable[[Expression], bool]
) -> tuple[Expression | None, Expression | None]:
    """The conjuncts that move, and those that stay."""
    parts = conjuncts(predicate)
    return conjunction(one for one in parts if moves(one)), conjunction(one for one in parts if not moves(one))


def filtered(node: logical.Node, predicate: Expression | None) -> logical.Node:
    """σ_predicate(node), the node itself where there is no predicate."""
    return node if predicate is None else logical.Filter(node, predicate)


def sink(
    node: logical.Filter,
    below: logical.Node,
    moves: Callable[[Expression], bool],
    over: Callable[[logical.Node], logical.Node],
) -> logical.Node | None:
    """σ_{p∧q}(over(below)) as σ_q(over(σ_p(below))), where p is what `moves`; None where nothing does."""
    moved, stays = split(node.predicate, moves)
    return None if moved is None else filtered(over(logical.Filter(below, moved)), stays)
