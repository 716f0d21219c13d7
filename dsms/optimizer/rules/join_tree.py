"""Inner joins of many inputs as a set: what is joined and under which conditions."""

from __future__ import annotations

from dataclasses import dataclass

from dsms.model import logical
from dsms.model.schema import schema
from dsms.optimizer.rules.conjuncts import conjunction, conjuncts, total
from dsms.optimizer.rules.identity import as_they_are
from dsms.optimizer.rules.split import filtered
from operators.expressions import Expression, columns

Pair = tuple[str, str]


@dataclass(frozen=True)
class JoinTree:
    """The inputs from left to right, the pairs of columns that are equal, and further conditions."""

    leaves: tuple[logical.Node, ...]
    pairs: tuple[Pair, ...] = ()
    residual: tuple[Expression, ...] = ()

    def __add__(self, other: JoinTree) -> JoinTree:
        return JoinTree(self.leaves + other.leaves, self.pairs + other.pairs, self.residual + other.residual)

    def joined(self, order: list[int]) -> logical.Node:
        """The joins from left to right in this order. A condition holds as soon as its columns are there; those that
        can be in fault last, on the rows that they would see anyway."""
        node = self.leaves[order[0]]
        waiting = [one for one in self.residual if total(one)]
        for at in order[1:]:
            node, waiting = self._with(node, self.leaves[at], waiting)
        last = [*waiting, *(one for one in self.residual if not total(one))]
        return filtered(node, conjunction(last))

    def _with(
        self, node: logical.Node, leaf: logical.Node, waiting: list[Expression]
    ) -> tuple[logical.Node, list[Expression]]:
        held, new = set(schema(node).names), set(schema(leaf).names)
        ready = [one for one in waiting if columns(one) <= held | new]
        on = tuple(dict.fromkeys(pair for one in self.pairs if (pair := oriented(one, held, new)) is not None))
        return logical.Join(node, leaf, on, conjunction(ready)), [one for one in waiting if one not in ready]


def oriented(pair: Pair, held: set[str], new: set[str]) -> Pair | None:
    """The pair with its column of `held` first; None where it does not connect the two."""
    one, other = pair
    if one in held and other in new:
        return one, other
    return (other, one) if other in held and one in new else None


def join_tree(node: logical.Node) -> JoinTree:
    """The largest set of inner joins with `node` on top; filters between joins are conditions, projections that only
    leave out columns are looked through."""
    match node:
        case logical.Join(left, right, on, residual, "none", nulls_equal) if not (on and nulls_equal):
            return join_tree(left) + join_tree(right) + JoinTree((), on, conjuncts(residual))
        case logical.Filter(below, predicate) if total(predicate) and len((found := join_tree(below)).leaves) > 1:
            return found + JoinTree((), (), conjuncts(predicate))
        case logical.Project(below, outputs) if set(outputs) <= set(as_they_are(schema(below))):
            found = join_tree(below)
            return found if len(found.leaves) > 1 else JoinTree((node,))
    return JoinTree((node,))
