"""Chooses the columns by whose hash the inputs of a query are shed: the columns by which the query joins them.

If both sides of a join on equal columns keep a row by a hash of these columns (universe sampling), partners are kept or
left out together: at rate p, a part p of the pairs is left. With independent choices it would be p².

All rows of a record are kept or left out together, so a column in which they may differ is not taken: the elements of
UNNEST, the windows of TUMBLE, HOP and CUMULATE, and what a table function computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from dsms.model import logical
from dsms.model.properties import inputs
from dsms.model.schema import schema
from dsms.planner.optimizer.algebra.column_origin import origin
from dsms.planner.optimizer.algebra.conjuncts import conjuncts
from operators.expressions import Call, Column, Expression, columns

#: The place of a node in a plan: which input to take at each node, from the top.
Place = tuple[int, ...]
#: A column of the node at a place.
_Source = tuple[Place, str]


def shed_keys(node: logical.Node, shed: Mapping[Place, logical.Node]) -> dict[Place, tuple[str, ...]]:
    """The columns whose hash decides about the rows of the `shed` inputs of a plan, by place, for those inputs that
    have such columns.

    Columns that must be equal form a class. Of all classes, the one that covers the most inputs is taken, with all
    others that cover these inputs too; then the next one for the inputs that are left. Columns of BOOLEAN are only
    taken with others: by two values, all rows could be left out.
    """
    classes = [dict(sorted(members, reverse=True)) for members in _classes(_equal_columns(node, (), shed))]
    keys: dict[Place, tuple[str, ...]] = {}
    while True:
        covered = [frozenset(members) - keys.keys() for members in classes if not _is_boolean(members, shed)]
        chosen = max(covered, key=len, default=frozenset())
        if len(chosen) < 2:
            return keys
        together = [members for members in classes if chosen <= members.keys()]
        keys |= {place: tuple(members[place] for members in together) for place in chosen}


def _is_boolean(members: Mapping[Place, str], shed: Mapping[Place, logical.Node]) -> bool:
    """Whether the columns of a class, which are all of one type, are of BOOLEAN."""
    place, name = next(iter(members.items()))
    return bool(schema(shed[place]).field(name).type == pa.bool_())


def _classes(pairs: Iterator[tuple[_Source, _Source]]) -> list[set[_Source]]:
    """The classes of columns that must be equal, in the order in which the plan names them."""
    classes: list[set[_Source]] = []
    for pair in pairs:
        met = [members for members in classes if not members.isdisjoint(pair)]
        classes = [members for members in classes if members not in met]
        classes.append(set(pair).union(*met))
    return classes


def _equal_columns(
    node: logical.Node, at: Place, shed: Mapping[Place, logical.Node]
) -> Iterator[tuple[_Source, _Source]]:
    """The pairs of columns of two shed inputs that are equal in every row of the result, and of the same type."""
    if at in shed:
        return
    for left, right in _compared(node, at):
        first, second = _traced(left, shed), _traced(right, shed)
        if first is not None and second is not None and first[0] != second[0]:
            types = [schema(shed[place]).field(name).type for place, name in (first, second)]
            if types[0] == types[1]:
                yield first, second
    for number, below in enumerate(inputs(node)):
        yield from _equal_columns(below, (*at, number), shed)


#: A node above the shed inputs, its place, and one of its columns.
_Above = tuple[logical.Node, Place, str]


def _compared(node: logical.Node, at: Place) -> Iterator[tuple[_Above, _Above]]:
    """The pairs of columns that a node requires to be equal."""
    match node:
        case logical.Filter():
            for left, right in _equalities(node.predicate):
                yield (node.input, (*at, 0), left), (node.input, (*at, 0), right)
        case logical.Join() | logical.SemiJoin():
            for left, right in node.on:
                yield (node.left, (*at, 0), left), (node.right, (*at, 1), right)
            for left, right in _equalities(node.residual):
                yield _side(node, at, left), _side(node, at, right)
        case logical.SetOperation():
            for left, right in zip(schema(node.left).names, schema(node.right).names, strict=True):
                yield (node.left, (*at, 0), left), (node.right, (*at, 1), right)


def _equalities(predicate: Expression | None) -> Iterator[tuple[str, str]]:
    for part in conjuncts(predicate):
        match part:
            case Call("equal", (Column(left), Column(right))):
                yield left, right


def _side(node: logical.Join | logical.SemiJoin, at: Place, name: str) -> _Above:
    """The side of a join that has a column."""
    if name in schema(node.left).names:
        return node.left, (*at, 0), name
    return node.right, (*at, 1), name


def _traced(above: _Above, shed: Mapping[Place, logical.Node]) -> _Source | None:
    """The column of a shed input from which a column is copied; None if it is computed, or if the rows of one record
    may differ in it."""
    node, at, name = above
    if at in shed:
        return (at, name) if _is_of_record(node, name) else None
    match node:
        case logical.Join() | logical.SemiJoin():
            return _traced(_side(node, at, name), shed)
        case logical.Distinct() | logical.Sync() | logical.TimeWindow() | logical.ToStream():
            return _traced((node.input, (*at, 0), name), shed)
    below = origin(node, name)
    return None if below is None else _traced((below[0], (*at, 0), below[1]), shed)


def _is_of_record(node: logical.Node, name: str) -> bool:
    """Whether all rows that a shed input computes from a record are equal in a column."""
    match node:
        case logical.StreamScan():
            return True
        case logical.Project():
            return all(_is_of_record(node.input, each) for each in columns(dict(node.outputs)[name]))
        case logical.TimeWindow() | logical.NowFilter() | logical.ToStream():
            return _is_of_record(node.input, name)
    below = origin(node, name)
    return below is not None and _is_of_record(*below)
