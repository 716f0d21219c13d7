"""Turns filters over ranks into TopK, which keeps only the first rows of each partition.

`SELECT … FROM (SELECT *, ROW_NUMBER() OVER w AS rank FROM X) WHERE a < rank AND rank <= b` is a TopK over X by the
partition and order of w, with offset a and limit b - a. The same holds for RANK and DENSE_RANK.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dsms.model import logical
from dsms.sql.binder.scalars.conditions import Output, conjuncts, filtered
from operators.expressions import MIRRORED, Call, Column, Expression, columns
from operators.expressions import Literal as Constant
from operators.ranking.window_call import WindowCall

_METHODS: dict[str, Literal["row_number", "rank", "dense_rank"]] = {
    "row_number": "row_number",
    "rank": "rank",
    "dense_rank": "dense_rank",
}


def filtered_by_rank(node: logical.Node, predicates: Iterable[Expression]) -> logical.Node:
    """The rows for which all predicates are TRUE. Bounds on a rank become a TopK."""
    wanted = [part for predicate in predicates for part in conjuncts(predicate)]
    ranked = _ranked(node)
    if ranked is None:
        return filtered(node, wanted)
    bounds = [(predicate, bound) for predicate in wanted if (bound := _bound(predicate, ranked.name)) is not None]
    first, last = _interval([bound for _, bound in bounds])
    if last is None:
        return filtered(node, wanted)
    used = [predicate for predicate, _ in bounds]
    return filtered(ranked.top(first, last), [predicate for predicate in wanted if predicate not in used])


@dataclass(frozen=True)
class _Ranked:
    """A plan whose column `name` is a rank. `below` computes the rank by `call`; `outputs`, if not None, is a
    projection above it."""

    call: WindowCall
    name: str
    below: logical.WindowFunctions
    outputs: tuple[Output, ...] | None

    def top(self, first: int, last: int) -> logical.Node:
        """The rows whose rank is from `first` to `last`."""
        node: logical.Node = logical.TopK(
            self.below.input,
            self.call.partition,
            self.call.order,
            max(last - first + 1, 0),
            first - 1,
            _METHODS[self.call.function],
            self.call.name,
        )
        return node if self.outputs is None else logical.Project(node, self.outputs)


def _ranked(node: logical.Node) -> _Ranked | None:
    """The rank, if it is the only window function of the last step of a plan; else None."""
    if isinstance(node, logical.WindowFunctions) and len(node.calls) == 1:
        call = node.calls[0]
        return _Ranked(call, call.name, node, None) if call.function in _METHODS else None
    if isinstance(node, logical.Project) and (below := _ranked(node.input)) is not None and below.outputs is None:
        names = [name for name, output in node.outputs if isinstance(output, Column) and output.name == below.name]
        return replace(below, name=names[0], outputs=node.outputs) if names else None
    return None


def _bound(predicate: Expression, rank: str) -> tuple[str, int] | None:
    """The comparison and the number, if a predicate compares the rank with a number; else None."""
    if not isinstance(predicate, Call) or predicate.function not in MIRRORED:
        return None
    first, second = predicate.arguments
    if isinstance(second, Column) and not isinstance(first, Column):
        mirrored = replace(predicate, function=MIRRORED[predicate.function], arguments=(second, first))
        return _bound(mirrored, rank)
    if not isinstance(first, Column) or first.name != rank or not isinstance(second, Constant):
        return None
    return (predicate.function, second.value) if isinstance(second.value, int) else None


def _interval(bounds: Sequence[tuple[str, int]]) -> tuple[int, int | None]:
    first, last = 1, None
    for comparison, number in bounds:
        low = {"greater": number + 1, "greater_or_equal": number, "equal": number}.get(comparison)
        high = {"less": number - 1, "less_or_equal": number, "equal": number}.get(comparison)
        first = first if low is None else max(first, low)
        last = last if high is None else high if last is None else min(last, high)
    return first, last


def projected(node: logical.Node, outputs: tuple[Output, ...]) -> logical.Node:
    """Named expressions over each row. Ranks that no output reads are not computed."""
    read = frozenset(name for _, output in outputs for name in columns(output))
    return logical.Project(_without_rank(node, read), outputs)


def _without_rank(node: logical.Node, read: frozenset[str]) -> logical.Node:
    if isinstance(node, logical.TopK) and node.rank is not None and node.rank not in read:
        return replace(node, rank=None)
    if isinstance(node, logical.Project) and isinstance(node.input, logical.TopK) and node.input.rank is not None:
        kept = tuple((name, output) for name, output in node.outputs if name in read)
        below = frozenset(name for _, output in kept for name in columns(output))
        return logical.Project(_without_rank(node.input, below), kept) if kept else node
    return node
