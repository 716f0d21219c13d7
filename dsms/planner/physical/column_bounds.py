"""Derives, from the promises of sources, which columns of a plan's relation arrive in order or in clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import singledispatch
from typing import NamedTuple, TypeVar

import pyarrow as pa

from dsms.model import logical
from dsms.model.properties import append_only, sources
from dsms.model.schema import WINDOW_COLUMNS, schema
from operators.expressions import Column


class LowerBound(NamedTuple):
    """A bound: the value that an ordered column of a source (by number) has reached, plus an offset in the column's
    unit.
    """

    source: int
    column: str
    offset: int = 0

    def shifted(self, offset: int) -> tuple[LowerBound, ...]:
        """The bounds of a value that is `offset` above the bounded value."""
        return (self._replace(offset=self.offset + offset),)


class Life(NamedTuple):
    """The life of values of a clustered column of a source (by number): the column had them at most `within` instants
    ago.
    """

    source: int
    column: str
    within: int

    def shifted(self, _: int) -> tuple[Life, ...]:
        """Empty: the life of a value does not extend to values above it."""
        return ()


#: By column: no change to come has a value below the least of these bounds. NULL is not a value.
LowerBounds = Mapping[str, frozenset[LowerBound]]
#: By column: no change to come has a value whose life in one of these columns is over.
Lives = Mapping[str, frozenset[Life]]
T = TypeVar("T", LowerBound, Life)
#: Facts about the columns of a relation, and the function that returns them for a scan.
_Known = Mapping[str, frozenset[T]]
_Promised = Callable[[logical.StreamScan], _Known[T]]


class ColumnBounds(NamedTuple):
    """Facts about the columns of the changes to come."""

    lower: LowerBounds = {}
    lives: Lives = {}


def bounds(node: logical.Node) -> ColumnBounds:
    """The columns of a node's relation that have lower bounds, and those whose values come from clustered columns.

    The law, for a change of the relation at or after an instant: in a column of the first kind it has NULL, or a value
    that is at least the least of the bounds reached at that instant. In a column of the second kind it has NULL, or a
    value that the clustered column had within the life, or has not had yet. Each value in a column of the second kind
    has been in the clustered column at the instant of its row or earlier.
    """
    if not any(source.constraints for source in sources(node)):
        return ColumnBounds()
    return ColumnBounds(_known(node, _ordered), _known(node, _clustered))


def arrivals(node: logical.Node) -> ColumnBounds:
    """Like `bounds`, but for arriving elements instead of all changes. A row of a window has its end from the
    beginning, so an operator that acts only when elements arrive, such as a join, needs no bounds for rows that end.
    """
    return bounds(_endless(node))


@singledispatch
def _endless(node: logical.Node) -> logical.Node:
    """The node without the ends of windows. Only nodes whose elements arrive together with those of their inputs are
    changed.
    """
    return node


@_endless.register
def _(node: logical.TimeWindow) -> logical.Node:
    return replace(node, length=None) if node.slide == 1 else node


@_endless.register(logical.Filter)
@_endless.register(logical.Project)
@_endless.register(logical.Unnest)
@_endless.register(logical.Members)
@_endless.register(logical.Assign)
def _(node: logical.Filter) -> logical.Node:
    return replace(node, input=_endless(node.input))


@_endless.register
def _(node: logical.Union) -> logical.Node:
    return replace(node, inputs=tuple(map(_endless, node.inputs)))


@_endless.register
def _(node: logical.Join) -> logical.Node:
    if node.outer != "none":
        return node
    return replace(node, left=_endless(node.left), right=_endless(node.right))


def _ordered(tag: logical.StreamScan) -> LowerBounds:
    columns = [ordered.column for ordered in tag.source.ordered if ordered.k is not None]
    return {column: frozenset({LowerBound(tag.source.number, column)}) for column in columns}


def _clustered(tag: logical.StreamScan) -> Lives:
    """A value that references a clustered column arrives during its life there, or after the referenced record within
    the bound of the promise.
    """
    return {promise.column: frozenset({_life(promise, tag)}) for promise in tag.promises}


def _life(promise: logical.Cluster | logical.Reference, tag: logical.StreamScan) -> Life:
    if isinstance(promise, logical.Cluster):
        return Life(tag.source.number, promise.column, promise.within)
    cluster = next(other for other in promise.other.promises if other.column == promise.theirs)
    return Life(promise.other.source.number, promise.theirs, max(promise.within, cluster.within))


@singledispatch
def _known(node: logical.Node, promised: _Promised[T]) -> _Known[T]:
    """By default nothing is known, because rows may leave later than they arrive, or are held back."""
    return {}


@_known.register
def _(node: logical.StreamScan, promised: _Promised[T]) -> _Known[T]:
    """With keys, only key columns keep their bounds: a record retracts the row that it replaces, which may have any
    values in other columns.
    """
    return {name: known for name, known in promised(node).items() if not node.keys or name in node.keys}


@_known.register(logical.Filter)
@_known.register(logical.Distinct)
@_known.register(logical.Members)
def _(node: logical.Filter, promised: _Promised[T]) -> _Known[T]:
    return _known(node.input, promised)


@_known.register
def _(node: logical.Project, promised: _Promised[T]) -> _Known[T]:
    below = _known(node.input, promised)
    pairs = ((name, output.name) for name, output in node.outputs if isinstance(output, Column))
    return {name: below[own] for name, own in pairs if own in below}


@_known.register
def _(node: logical.Unnest, promised: _Promised[T]) -> _Known[T]:
    return {name: known for name, known in _known(node.input, promised).items() if name != node.output}


@_known.register
def _(node: logical.TimeWindow, promised: _Promised[T]) -> _Known[T]:
    return _known(node.input, promised) if node.length is None and node.slide == 1 else {}


@_known.register(logical.Restamp)
@_known.register(logical.ToStream)
def _(node: logical.Restamp | logical.ToStream, promised: _Promised[T]) -> _Known[T]:
    """Rows that never leave arrive at the same instants as in the input."""
    unchanged = append_only(node.input) and (isinstance(node, logical.Restamp) or node.kind == "istream")
    return _known(node.input, promised) if unchanged else {}


@_known.register
def _(node: logical.Assign, promised: _Promised[T]) -> _Known[T]:
    """A window that contains a value ends above it and starts less than its size below it. So `window_start` and
    `window_end` have the bounds of the value, shifted by an offset. A window of size 10 that contains the value 42
    starts at 33 or later and ends at 43 or later."""
    below = {name: known for name, known in _known(node.input, promised).items() if name not in WINDOW_COLUMNS}
    unit = _unit(schema(node.input).field(node.column).type)
    if node.column not in below or unit is None:
        return below
    offsets = dict(zip(WINDOW_COLUMNS, (1 - node.size * unit, 1), strict=True))
    bounds_of_window = {name: frozenset(_shifted(below[node.column], offset)) for name, offset in offsets.items()}
    return {**below, **{name: known for name, known in bounds_of_window.items() if known}}


def _unit(type_: pa.DataType) -> int | None:
    """The number of units of a type in one unit of a window's size; None if the ends of windows have another type."""
    if pa.types.is_timestamp(type_):
        return 1000
    return 1 if pa.types.is_integer(type_) else None


def _shifted(known: Iterable[T], offset: int) -> Iterator[T]:
    return (shifted for item in known for shifted in item.shifted(offset))


@_known.register
def _(node: logical.GroupBy, promised: _Promised[T]) -> _Known[T]:
    return _of_groups(node.input, node.keys, promised)


@_known.register
def _(node: logical.TopK, promised: _Promised[T]) -> _Known[T]:
    return _of_groups(node.input, node.partition, promised)


@_known.register
def _(node: logical.WindowFunctions, promised: _Promised[T]) -> _Known[T]:
    return _of_groups(node.input, node.calls[0].partition, promised)


def _of_groups(node: logical.Node, names: Iterable[str], promised: _Promised[T]) -> _Known[T]:
    """The facts about the key columns of a node whose groups change only if their rows change."""
    below = _known(node, promised)
    return {name: below[name] for name in names if name in below}


@_known.register
def _(node: logical.Union, promised: _Promised[T]) -> _Known[T]:
    return _of_any_input(node, node.inputs, promised)


@_known.register
def _(node: logical.SetOperation, promised: _Promised[T]) -> _Known[T]:
    return _of_any_input(node, (node.left, node.right), promised)


def _of_any_input(node: logical.Node, inputs: Iterable[logical.Node], promised: _Promised[T]) -> _Known[T]:
    """A change may come from any input, so a column has bounds only if the column at its position in every input has
    bounds."""
    sides = [[_known(side, promised).get(name) for name in schema(side).names] for side in inputs]
    of_all = dict[str, frozenset[T]]()
    for name, of_sides in zip(schema(node).names, zip(*sides, strict=True), strict=True):
        known = [of_side for of_side in of_sides if of_side is not None]
        if len(known) == len(of_sides):
            of_all[name] = frozenset[T]().union(*known)
    return of_all


@_known.register
def _(node: logical.Join, promised: _Promised[T]) -> _Known[T]:
    """A pair may arrive with either of its rows, so two equal columns have bounds only if both have bounds in the
    inputs.
    """
    pairs = _of_pairs(node, promised)
    return {name: known for names, known in pairs.items() for name in names}


@_known.register
def _(node: logical.SemiJoin, promised: _Promised[T]) -> _Known[T]:
    return {mine: known for (mine, _), known in _of_pairs(node, promised).items()}


def _of_pairs(node: logical.Join | logical.SemiJoin, promised: _Promised[T]) -> dict[tuple[str, str], frozenset[T]]:
    left, right = _known(node.left, promised), _known(node.right, promised)
    return {(mine, theirs): left[mine] | right[theirs] for mine, theirs in node.on if mine in left and theirs in right}
