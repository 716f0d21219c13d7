"""Which columns of a plan's relation come in order: what follows from what sources promise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import singledispatch
from typing import NamedTuple

import pyarrow as pa

from dsms.plan import logical
from dsms.plan.properties import append_only, sources
from dsms.plan.schema import WINDOW_COLUMNS, schema
from operators.expressions import Column


class Low(NamedTuple):
    """How far an ordered column of a source, by number, has come, plus an offset in units of the column."""

    source: int
    column: str
    offset: int = 0


#: By column: no change to come of the relation has a value below the least of these; NULL is no value.
Lows = Mapping[str, frozenset[Low]]
_NONE: Lows = {}


def lows(node: logical.Node) -> Lows:
    """The columns of a node's relation that come in order, with what bounds them from below.

    The law: a change of the relation at or after an instant has, in each of these columns, NULL or a value that is not
    below what the sources' columns have reached at that instant.
    """
    return _lows(node) if any(source.constraints for source in sources(node)) else _NONE


@singledispatch
def _lows(node: logical.Node) -> Lows:
    """Nothing is known where rows leave later than they came, or are held back."""
    return _NONE


@_lows.register
def _(node: logical.Tag) -> Lows:
    """The row that a record replaces has its key, and no other column of it."""
    ordered = (one.column for one in node.source.constraints if one.k is not None)
    return {name: frozenset({Low(node.source.number, name)}) for name in ordered if not node.keys or name in node.keys}


@_lows.register(logical.Filter)
@_lows.register(logical.Distinct)
@_lows.register(logical.Members)
def _(node: logical.Filter) -> Lows:
    return _lows(node.input)


@_lows.register
def _(node: logical.Project) -> Lows:
    below = _lows(node.input)
    pairs = ((name, output.name) for name, output in node.outputs if isinstance(output, Column))
    return {name: below[own] for name, own in pairs if own in below}


@_lows.register
def _(node: logical.Unnest) -> Lows:
    return {name: low for name, low in _lows(node.input).items() if name != node.output}


@_lows.register
def _(node: logical.TimeWindow) -> Lows:
    return _lows(node.input) if node.length is None and node.slide == 1 else _NONE


@_lows.register(logical.Restamp)
@_lows.register(logical.ToStream)
def _(node: logical.Restamp | logical.ToStream) -> Lows:
    """Rows that only come, come as they do below."""
    stays = append_only(node.input) and (isinstance(node, logical.Restamp) or node.kind == "istream")
    return _lows(node.input) if stays else _NONE


@_lows.register
def _(node: logical.Assign) -> Lows:
    """A window that holds a value ends above it, and starts less than its size below."""
    below = {name: low for name, low in _lows(node.input).items() if name not in WINDOW_COLUMNS}
    unit = _unit(schema(node.input).field(node.column).type)
    if node.column not in below or unit is None:
        return below
    start, end = WINDOW_COLUMNS
    held = below[node.column]
    return {**below, start: _moved(held, 1 - node.size * unit), end: _moved(held, 1)}


def _unit(type_: pa.DataType) -> int | None:
    """How many units of a type are one of a window's size, where windows have that type too."""
    if pa.types.is_timestamp(type_):
        return 1000
    return 1 if pa.types.is_integer(type_) else None


def _moved(held: Iterable[Low], offset: int) -> frozenset[Low]:
    return frozenset(one._replace(offset=one.offset + offset) for one in held)


@_lows.register
def _(node: logical.GroupBy) -> Lows:
    return _of(node.input, node.keys)


@_lows.register
def _(node: logical.TopK) -> Lows:
    return _of(node.input, node.partition)


@_lows.register
def _(node: logical.WindowFunctions) -> Lows:
    return _of(node.input, node.calls[0].partition)


def _of(node: logical.Node, names: Iterable[str]) -> Lows:
    """Of a node whose groups change where its input does."""
    below = _lows(node)
    return {name: below[name] for name in names if name in below}


@_lows.register
def _(node: logical.Union) -> Lows:
    return _together(node, node.inputs)


@_lows.register
def _(node: logical.SetOperation) -> Lows:
    return _together(node, (node.left, node.right))


def _together(node: logical.Node, inputs: Iterable[logical.Node]) -> Lows:
    """Columns go by their places; each is as far as the input in which it is least far."""
    sides = [[_lows(one).get(name) for name in schema(one).names] for one in inputs]
    found = dict[str, frozenset[Low]]()
    for name, each in zip(schema(node).names, zip(*sides, strict=True), strict=True):
        known = [one for one in each if one is not None]
        if len(known) == len(each):
            found[name] = frozenset[Low]().union(*known)
    return found


@_lows.register
def _(node: logical.Join) -> Lows:
    """A pair comes with either of its rows: of columns that are equal, both must come in order."""
    both = _paired(node)
    return {name: low for names, low in both.items() for name in names}


@_lows.register
def _(node: logical.SemiJoin) -> Lows:
    return {mine: low for (mine, _), low in _paired(node).items()}


def _paired(node: logical.Join | logical.SemiJoin) -> dict[tuple[str, str], frozenset[Low]]:
    left, right = _lows(node.left), _lows(node.right)
    return {(mine, theirs): left[mine] | right[theirs] for mine, theirs in node.on if mine in left and theirs in right}
