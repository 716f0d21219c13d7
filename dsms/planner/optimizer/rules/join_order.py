"""The rule that orders inner joins by estimated sizes."""

from __future__ import annotations

from dsms.model import logical
from dsms.model.properties import keys
from dsms.model.schema import schema
from dsms.planner.optimizer.algebra.cardinality import estimated_rows
from dsms.planner.optimizer.algebra.column_projections import order_columns
from dsms.planner.optimizer.algebra.join_tree import JoinTree, join_tree, oriented

_MAX_INPUTS = 16


def join_order(node: logical.Node) -> logical.Node | None:
    """(A ⋈ B) ⋈ C = π(A ⋈ (B ⋈ C)) in any order, if all joins are inner. PIPES rule 10.4.

    The order is greedy. The first input is the one with the fewest estimated rows among those that occur in an
    equality. Each further input is preferably one that an equality connects with those before it, then one that is
    joined by its key, then one with fewer rows. Ties are broken by the written order, so a plan already in this order
    stays.
    """
    if not isinstance(node, logical.Join) or (tree := reorderable(node)) is None:
        return None
    order = _greedy_order(tree)
    return order_columns(tree.joined(order), schema(node).names) if order != sorted(order) else None


def reorderable(node: logical.Join) -> JoinTree | None:
    """The tree of inner joins with `node` on top; None if it has fewer than three inputs, more than `_MAX_INPUTS`, or
    inputs with equal column names."""
    tree = join_tree(node)
    several = node.outer == "none" and 2 < len(tree.leaves) <= _MAX_INPUTS
    return tree if several and _names_are_distinct(tree) else None


def _names_are_distinct(tree: JoinTree) -> bool:
    names = [name for leaf in tree.leaves for name in schema(leaf).names]
    return len(names) == len(set(names))


def _greedy_order(tree: JoinTree) -> list[int]:
    names = [set(schema(leaf).names) for leaf in tree.leaves]
    sizes = [estimated_rows(leaf) for leaf in tree.leaves]
    rest = list(range(len(names)))
    order = [min(rest, key=lambda at: (not _has_equality(tree, names[at]), sizes[at], at))]
    rest.remove(order[0])
    while rest:
        joined = set().union(*(names[at] for at in order))
        best = min(rest, key=lambda at: (*_connection(tree, at, joined, names[at]), sizes[at], at))
        order.append(best)
        rest.remove(best)
    return order


def _has_equality(tree: JoinTree, names: set[str]) -> bool:
    return any(left in names or right in names for left, right in tree.pairs)


def _connection(tree: JoinTree, at: int, joined: set[str], names: set[str]) -> tuple[bool, bool]:
    """Whether the input lacks an equality with the inputs joined so far, and whether its key is not fully compared."""
    pairs = (oriented(pair, joined, names) for pair in tree.pairs)
    compared = {pair[1] for pair in pairs if pair is not None}
    key = keys(tree.leaves[at])
    return not compared, not (key and set(key) <= compared)
