"""The order of joins."""

from __future__ import annotations

from dsms.model import logical
from dsms.model.properties import keys
from dsms.model.schema import schema
from dsms.optimizer.rules.cost import estimate
from dsms.optimizer.rules.identity import in_order
from dsms.optimizer.rules.join_tree import JoinTree, join_tree, oriented

_MOST = 16


def join_order(node: logical.Node) -> logical.Node | None:
    """(A ⋈ B) ⋈ C = π(A ⋈ (B ⋈ C)) in any order, if all joins are inner: the one of the least estimate first, then of
    those connected by an equality one that is joined by its key, else the least. PIPES rule 10.4.

    Ties go by the order as written, so a plan in this order stays.
    """
    if not isinstance(node, logical.Join) or node.outer != "none":
        return None
    tree = join_tree(node)
    if not 2 < len(tree.leaves) <= _MOST or not _disjoint(tree):
        return None
    order = _greedy(tree)
    return in_order(tree.joined(order), schema(node).names) if order != sorted(order) else None


def _disjoint(tree: JoinTree) -> bool:
    names = [name for leaf in tree.leaves for name in schema(leaf).names]
    return len(names) == len(set(names))


def _greedy(tree: JoinTree) -> list[int]:
    names = [set(schema(leaf).names) for leaf in tree.leaves]
    sizes = [estimate(leaf) for leaf in tree.leaves]
    rest = list(range(len(names)))
    order = [min(rest, key=lambda at: (not _connects(tree, names[at]), sizes[at], at))]
    rest.remove(order[0])
    while rest:
        held = set().union(*(names[at] for at in order))
        best = min(rest, key=lambda at: (*_rank(tree, at, held, names[at]), sizes[at], at))
        order.append(best)
        rest.remove(best)
    return order


def _connects(tree: JoinTree, names: set[str]) -> bool:
    return any(one in names or other in names for one, other in tree.pairs)


def _rank(tree: JoinTree, at: int, held: set[str], names: set[str]) -> tuple[bool, bool]:
    """Whether an input is not connected with what is joined, and whether not by its key."""
    found = {pair[1] for one in tree.pairs if (pair := oriented(one, held, names)) is not None}
    key = keys(tree.leaves[at])
    return not found, not (key and set(key) <= found)
