"""Which columns of a plan's relation come in order, or together: what follows from what sources promise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import singledispatch
from typing import NamedTuple, TypeVar

import pyarrow as pa

from dsms.model import logical
from dsms.model.properties import append_only, sources
from dsms.model.schema import WINDOW_COLUMNS, schema
from operators.expressions import Column


class Low(NamedTuple):
    """How far an ordered column of a source, by number, has come, plus an offset in units of the column."""

    source: int
    column: str
    offset: int = 0

    def moved(self, offset: int) -> tuple[Low, ...]:
        """What is known of something that is so much above."""
        return (self._replace(offset=self.offset + offset),)


class Life(NamedTuple):
    """What a column of a source, by number, has shown not longer than `within` ago."""

    source: int
    column: str
    within: int

    def moved(self, _: int) -> tuple[Life, ...]:
        """What is above a value was not shown."""
        return ()


#: By column: no change to come of the relation has a value below the least of these; NULL is no value.
Lows = Mapping[str, frozenset[Low]]
#: By column: no change to come has a value that one of these has shown and does not show any more.
Lives = Mapping[str, frozenset[Life]]
T = TypeVar("T", Low, Life)
#: What tags promise of columns, and what follows for those of a relation.
_Known = Mapping[str, frozenset[T]]
_Seed = Callable[[logical.StreamScan], _Known[T]]


class Bounds(NamedTuple):
    """What is known of the columns of the changes to come."""

    lows: Lows = {}
    lives: Lives = {}


def bounds(node: logical.Node) -> Bounds:
    """The columns of a node's relation that come in order, with what bounds them from below; and those whose values
    come from such as live, with where these are seen.

    The law: a change of the relation at or after an instant has, in each of these columns, NULL or a value that is not
    below what the sources' columns have reached at that instant; or one that was shown not longer ago, or never.
    Every value in a column of the second kind was shown by the instant of its row.
    """
    if not any(source.constraints for source in sources(node)):
        return Bounds()
    return Bounds(_known(node, _ordered), _known(node, _clustered))


def _ordered(tag: logical.StreamScan) -> Lows:
    return {
        one.column: frozenset({Low(tag.source.number, one.column)}) for one in tag.source.ordered if one.k is not None
    }


def _clustered(tag: logical.StreamScan) -> Lives:
    """What refers to a clustered column comes while that lives, or not long after what it refers to."""
    return {one.column: frozenset({_life(one, tag)}) for one in tag.promises}


def _life(promise: logical.Cluster | logical.Reference, tag: logical.StreamScan) -> Life:
    if isinstance(promise, logical.Cluster):
        return Life(tag.source.number, promise.column, promise.within)
    cluster = next(one for one in promise.other.promises if one.column == promise.theirs)
    return Life(promise.other.source.number, promise.theirs, max(promise.within, cluster.within))


@singledispatch
def _known(node: logical.Node, seed: _Seed[T]) -> _Known[T]:
    """Nothing is known where rows leave later than they came, or are held back."""
    return {}


@_known.register
def _(node: logical.StreamScan, seed: _Seed[T]) -> _Known[T]:
    """The row that a record replaces has its key, and no other column of it."""
    return {name: one for name, one in seed(node).items() if not node.keys or name in node.keys}


@_known.register(logical.Filter)
@_known.register(logical.Distinct)
@_known.register(logical.Members)
def _(node: logical.Filter, seed: _Seed[T]) -> _Known[T]:
    return _known(node.input, seed)


@_known.register
def _(node: logical.Project, seed: _Seed[T]) -> _Known[T]:
    below = _known(node.input, seed)
    pairs = ((name, output.name) for name, output in node.outputs if isinstance(output, Column))
    return {name: below[own] for name, own in pairs if own in below}


@_known.register
def _(node: logical.Unnest, seed: _Seed[T]) -> _Known[T]:
    return {name: low for name, low in _known(node.input, seed).items() if name != node.output}


@_known.register
def _(node: logical.TimeWindow, seed: _Seed[T]) -> _Known[T]:
    return _known(node.input, seed) if node.length is None and node.slide == 1 else {}


@_known.register(logical.Restamp)
@_known.register(logical.ToStream)
def _(node: logical.Restamp | logical.ToStream, seed: _Seed[T]) -> _Known[T]:
    """Rows that only come, come as they do below."""
    stays = append_only(node.input) and (isinstance(node, logical.Restamp) or node.kind == "istream")
    return _known(node.input, seed) if stays else {}


@_known.register
def _(node: logical.Assign, seed: _Seed[T]) -> _Known[T]:
    """A window that holds a value ends above it, and starts less than its size below: edges are as ordered as that."""
    below = {name: one for name, one in _known(node.input, seed).items() if name not in WINDOW_COLUMNS}
    unit = _unit(schema(node.input).field(node.column).type)
    if node.column not in below or unit is None:
        return below
    edges = dict(zip(WINDOW_COLUMNS, (1 - node.size * unit, 1), strict=True))
    moved = {name: frozenset(_moved(below[node.column], offset)) for name, offset in edges.items()}
    return {**below, **{name: found for name, found in moved.items() if found}}


def _unit(type_: pa.DataType) -> int | None:
    """How many units of a type are one of a window's size, where windows have that type too."""
    if pa.types.is_timestamp(type_):
        return 1000
    return 1 if pa.types.is_integer(type_) else None


def _moved(held: Iterable[T], offset: int) -> Iterator[T]:
    return (found for one in held for found in one.moved(offset))


@_known.register
def _(node: logical.GroupBy, seed: _Seed[T]) -> _Known[T]:
    return _of(node.input, node.keys, seed)


@_known.register
def _(node: logical.TopK, seed: _Seed[T]) -> _Known[T]:
    return _of(node.input, node.partition, seed)


@_known.register
def _(node: logical.WindowFunctions, seed: _Seed[T]) -> _Known[T]:
    return _of(node.input, node.calls[0].partition, seed)


def _of(node: logical.Node, names: Iterable[str], seed: _Seed[T]) -> _Known[T]:
    """Of a node whose groups change where its input does."""
    below = _known(node, seed)
    return {name: below[name] for name in names if name in below}


@_known.register
def _(node: logical.Union, seed: _Seed[T]) -> _Known[T]:
    return _together(node, node.inputs, seed)


@_known.register
def _(node: logical.SetOperation, seed: _Seed[T]) -> _Known[T]:
    return _together(node, (node.left, node.right), seed)


def _together(node: logical.Node, inputs: Iterable[logical.Node], seed: _Seed[T]) -> _Known[T]:
    """Columns go by their places; a change comes from any of the inputs."""
    sides = [[_known(one, seed).get(name) for name in schema(one).names] for one in inputs]
    found = dict[str, frozenset[T]]()
    for name, each in zip(schema(node).names, zip(*sides, strict=True), strict=True):
        known = [one for one in each if one is not None]
        if len(known) == len(each):
            found[name] = frozenset[T]().union(*known)
    return found


@_known.register
def _(node: logical.Join, seed: _Seed[T]) -> _Known[T]:
    """A pair comes with either of its rows: of columns that are equal, something must be known of both."""
    both = _paired(node, seed)
    return {name: low for names, low in both.items() for name in names}


@_known.register
def _(node: logical.SemiJoin, seed: _Seed[T]) -> _Known[T]:
    return {mine: low for (mine, _), low in _paired(node, seed).items()}


def _paired(
    node: logical.Join | logical.SemiJoin, seed: _Seed[T]
) -> dict[tuple[str, str], frozenset[T]]:  # fmt: skip
    left, right = _known(node.left, seed), _known(node.right, seed)
    return {(mine, theirs): left[mine] | right[theirs] for mine, theirs in node.on if mine in left and theirs in right}
