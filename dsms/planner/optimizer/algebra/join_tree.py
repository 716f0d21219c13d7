"""A flattened tree of inner joins: its inputs and its conditions, without an order of the joins."""

from __future__ import annotations

from dataclasses import dataclass

from dsms.model import logical
from dsms.model.schema import schema
from dsms.planner.optimizer.algebra.column_projections import unchanged
from dsms.planner.optimizer.algebra.conjuncts import conjunction, conjuncts, total
from dsms.planner.optimizer.algebra.split import filtered
from operators.expressions import Expression, columns

Pair = tuple[str, str]


@dataclass(frozen=True)
class JoinTree:
    """The inputs from left to right, the pairs of columns that must be equal, and further conditions."""

    leaves: tuple[logical.Node, ...]
    pairs: tuple[Pair, ...] = ()
    residual: tuple[Expression, ...] = ()

    def __add__(self, other: JoinTree) -> JoinTree:
        return JoinTree(self.leaves + other.leaves, self.pairs + other.pairs, self.residual + other.residual)

    def joined(self, order: list[int]) -> logical.Node:
        """The left-deep join of the leaves, in the given order.

        A total condition is placed at the first join that has its columns. Conditions that are not total are placed
        above all joins, where they are evaluated on the same rows as before.
        """
        node = self.leaves[order[0]]
        waiting = [condition for condition in self.residual if total(condition)]
        for at in order[1:]:
            node, waiting = self._join(node, self.leaves[at], waiting)
        last = [*waiting, *(condition for condition in self.residual if not total(condition))]
        return filtered(node, conjunction(last))

    def _join(
        self, node: logical.Node, leaf: logical.Node, waiting: list[Expression]
    ) -> tuple[logical.Node, list[Expression]]:
        """The join with one more leaf, and the conditions whose columns are still missing."""
        left, right = set(schema(node).names), set(schema(leaf).names)
        ready = [condition for condition in waiting if columns(condition) <= left | right]
        pairs = (oriented(pair, left, right) for pair in self.pairs)
        on = tuple(dict.fromkeys(pair for pair in pairs if pair is not None))
        join = logical.Join(node, leaf, on, conjunction(ready))
        return join, [condition for condition in waiting if condition not in ready]


def oriented(pair: Pair, left: set[str], right: set[str]) -> Pair | None:
    """The pair as (column of `left`, column of `right`); None if it does not connect the two sides."""
    first, second = pair
    if first in left and second in right:
        return first, second
    return (second, first) if second in left and first in right else None


def join_tree(node: logical.Node) -> JoinTree:
    """The largest tree of inner joins with `node` on top.

    Filters between joins become conditions, and projections that only drop columns are ignored.
    """
    match node:
        case logical.Join(left, right, on, residual, "none", nulls_equal) if not (on and nulls_equal):
            return join_tree(left) + join_tree(right) + JoinTree((), on, conjuncts(residual))
        case logical.Filter(below, predicate) if total(predicate) and len((tree := join_tree(below)).leaves) > 1:
            return tree + JoinTree((), (), conjuncts(predicate))
        case logical.Project(below, outputs) if set(outputs) <= set(unchanged(schema(below))):
            tree = join_tree(below)
            return tree if len(tree.leaves) > 1 else JoinTree((node,))
    return JoinTree((node,))
