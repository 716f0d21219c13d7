"""Applies chosen join orders, from measured statistics or from ALTER QUERY, to an optimised plan.

The rule `join_order` orders joins by the shape of a plan alone; a chosen order replaces that order. The chosen order is
stored with the query, so every process computes the same plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dsms.model import logical
from dsms.model.objects import JoinOrders
from dsms.model.properties import inputs
from dsms.model.replace_inputs import with_inputs
from dsms.model.schema import schema
from dsms.planner.optimizer.algebra.arrival_order import depends_on_arrival
from dsms.planner.optimizer.algebra.column_projections import order_columns
from dsms.planner.optimizer.algebra.join_tree import JoinTree, Pair
from dsms.planner.optimizer.optimize import preserves_properties, rewritten_in_join_order
from dsms.planner.optimizer.rules.join_order import reorderable


def join_trees(node: logical.Node) -> list[JoinTree]:
    """The trees of inner joins whose inputs may be reordered, upper trees first. Each has at least three inputs. Trees
    below a node whose result depends on the order of rows are left out.
    """
    return [tree for _, tree in tops_of_joins(node)]


def reordered(node: logical.Node, orders: JoinOrders) -> logical.Node:
    """The optimised plan with an order for each of its `join_trees`. The plan is unchanged if the orders do not fit it,
    for example because another version of the optimizer found other trees.

    The law: the result has the same relation at every instant, the same columns, and a key if the plan had one.
    """
    found = list(tops_of_joins(node))
    if not orders or not fits(orders, [tree for _, tree in found]):
        return node
    replaced = {id(top): _joined(top, tree, order) for (top, tree), order in zip(found, orders, strict=True)}
    changed = rewritten_in_join_order(_replaced(node, replaced))
    return changed if preserves_properties(node, changed) else node


def fits(orders: JoinOrders, trees: list[JoinTree]) -> bool:
    """Whether there is one order for each tree, and each order has each input of its tree once.

    >>> fits(((1, 0),), []), fits((), [])
    (False, True)
    """
    wanted = [list(range(len(tree.leaves))) for tree in trees]
    return [sorted(order) for order in orders] == wanted


def tops_of_joins(node: logical.Node) -> Iterator[tuple[logical.Node, JoinTree]]:
    """The trees of `join_trees`, each with its top node. Inputs of a tree may contain further trees."""
    if depends_on_arrival(node):
        return
    tree = reorderable(node) if isinstance(node, logical.Join) else None
    if tree is not None:
        yield node, tree
    for below in inputs(node) if tree is None else tree.leaves:
        yield from tops_of_joins(below)


def _joined(top: logical.Node, tree: JoinTree, order: tuple[int, ...]) -> logical.Node:
    names = [schema(leaf).names for leaf in tree.leaves]
    pairs = (pair for class_ in equal_columns(tree) for pair in _connecting(class_, [names[at] for at in order]))
    return order_columns(replace(tree, pairs=tuple(pairs)).joined(list(order)), schema(top).names)


def equal_columns(tree: JoinTree) -> list[frozenset[str]]:
    """The equivalence classes of columns under the pairs of a tree, in the order of their first pairs.

    >>> equal_columns(JoinTree((), (("a", "b"), ("x", "y"), ("c", "b"))))[1] == {"x", "y"}
    True
    """
    classes: list[frozenset[str]] = []
    for pair in tree.pairs:
        joining = [class_ for class_ in classes if not class_.isdisjoint(pair)]
        rest = [class_ for class_ in classes if class_.isdisjoint(pair)]
        at = classes.index(joining[0]) if joining else len(rest)
        classes = [*rest[:at], frozenset(pair).union(*joining), *rest[at:]]
    return classes


def _connecting(class_: frozenset[str], inputs_in_order: list[list[str]]) -> Iterator[Pair]:
    """The smallest set of pairs that makes the columns of a class equal if inputs are joined in this order."""
    joined: list[str] = []
    # Whether the first input with columns of the class has several, and no pair compares these with each other yet.
    uncompared = False
    for names in inputs_in_order:
        here = [name for name in names if name in class_]
        if joined and here:
            compared, uncompared = (joined if uncompared else joined[:1]), False
            yield from ((name, here[0]) for name in compared)
            yield from ((joined[0], name) for name in here[1:])
        uncompared = uncompared or (not joined and len(here) > 1)
        joined += here


def _replaced(node: logical.Node, by: dict[int, logical.Node]) -> logical.Node:
    """The plan with some nodes replaced, by identity."""
    node = by.get(id(node), node)
    return with_inputs(node, tuple(_replaced(below, by) for below in inputs(node)))
