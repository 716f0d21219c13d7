"""Prepares a plan for load shedding without estimates: MAX_LOSS, for monotone queries.

The law: if records are left out of the input of a monotone query, its result at every instant is a part of the exact
result, as a multiset. So no row is wrong, and some may be missing.

A Shed is inserted on top of each part of the plan that computes rows from single records of a stream, that is, directly
below the first operators with state. All Sheds of a query have the same rate. Which columns decide whether a row is
kept is chosen by `shed_keys`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from dsms.model import logical
from dsms.model.objects import ValuePreference
from dsms.model.properties import append_only, inputs, keys, walk
from dsms.model.replace_inputs import with_inputs
from dsms.model.schema import schema
from dsms.planner.optimizer.algebra.column_projections import unchanged
from dsms.planner.optimizer.carried_column import with_carried_column
from dsms.planner.optimizer.shed_keys import Place, shed_keys
from operators.core.errors import UserError
from operators.expressions import Expression, column
from operators.sync.sync_points import Periodic

_REFUSED: Final[Mapping[type, tuple[str, str]]] = {
    logical.GroupBy: ("an aggregate", "its value over a part of the input is another value"),
    logical.TopK: ("ORDER BY … LIMIT", "other rows would take the places of those that are left out"),
    logical.RowWindow: ("a window of ROWS", "if a row is left out, another row enters the window in its place"),
    logical.WindowFunctions: ("OVER", "a value is computed from other rows, some of which may be left out"),
    logical.Session: ("a session window", "leaving out a row could split a session in two"),
    logical.AsofJoin: ("an as-of join", "if the nearest partner is left out, another one takes its place"),
    logical.Recursion: ("WITH RECURSIVE", "how much of the result depends on a record is not known"),
    logical.Final: ("EMIT FINAL", "it is for groups"),
}
#: The column that has the values of a preference.
_PREFERRED: Final = "__preferred"
_LATER: Final = "the instant at which a row enters depends on which records are left out"


def with_parts(node: logical.Node, query: str, preference: ValuePreference | None = None) -> logical.Node:
    """The bound plan of a query with a Shed for each stream that it reads. With a preference, the rates of its only
    stream depend on the values of a column.

    Raises UserError, with the SQL construct and the reason, if the result over a part of the input is not a part of the
    result, or if a preference does not fit the query."""
    _check(node, top=True)
    shed = dict(_inputs_to_shed(node, ()))
    if preference is not None:
        at, read = _single(shed)
        return _replaced(node, (), {at: _with_preference(read, query, preference[1])})
    by = shed_keys(node, shed)
    return _replaced(node, (), {at: _with_shed(read, query, by.get(at, ())) for at, read in shed.items()})


def _with_preference(read: logical.Node, query: str, column_name: str) -> logical.Node:
    carried = with_carried_column(read, _PREFERRED, partial(_column, column_name))
    kept = logical.Shed(carried, query, (), (), prefers=_PREFERRED)
    return logical.Project(kept, unchanged(schema(read)))


def _with_shed(read: logical.Node, query: str, by: tuple[str, ...]) -> logical.Node:
    return logical.Project(logical.Shed(read, query, (), (), by=by), unchanged(schema(read)))


def preferred_stream(node: logical.Node, column_name: str) -> str:
    """The name of the only stream of a query that prefers values of one of its columns.

    Raises UserError if the query reads several streams, or if the stream has no such column."""
    _, read = _single(dict(_inputs_to_shed(node, ())))
    stream = next(below for below in walk(read) if isinstance(below, logical.StreamScan))
    _column(column_name, stream)
    return stream.stream


def _single(shed: Mapping[Place, logical.Node]) -> tuple[Place, logical.Node]:
    if len(shed) > 1:
        raise UserError("WITH PREFERENCE in a continuous query needs a single stream", hint="read one stream, once")
    return next(iter(shed.items()))


def _column(name: str, stream: logical.StreamScan) -> Expression:
    for field in schema(stream):
        if field.name.casefold() == name.casefold():
            return column(field)
    hint = f"have: {', '.join(schema(stream).names)}"
    raise UserError(f'WITH PREFERENCE: stream "{stream.stream}" has no column "{name}"', hint=hint)


def _replaced(node: logical.Node, at: Place, by: Mapping[Place, logical.Node]) -> logical.Node:
    """The part of a plan that is at a place, with other nodes at the places of `by`."""
    if at in by:
        return by[at]
    below = (_replaced(each, (*at, number), by) for number, each in enumerate(inputs(node)))
    return with_inputs(node, tuple(below))


def _inputs_to_shed(node: logical.Node, at: Place) -> Iterator[tuple[Place, logical.Node]]:
    """The largest parts of a plan that compute rows from single records of a stream, by place."""
    if _reads_single_records(node):
        yield at, node
        return
    for number, below in enumerate(inputs(node)):
        yield from _inputs_to_shed(below, (*at, number))


def _reads_single_records(node: logical.Node) -> bool:
    """Whether each row is computed from one record of a stream, without state."""
    match node:
        case logical.StreamScan():
            return True
        case (
            logical.Filter()
            | logical.Project()
            | logical.Unnest()
            | logical.Assign()
            | logical.Sample()
            | logical.TimeWindow()
            | logical.NowFilter()
            | logical.Apply()
            | logical.Restamp()
        ):
            return _reads_single_records(node.input)
        case logical.ToStream(kind="istream"):
            return append_only(node.input) and _reads_single_records(node.input)
    return False


# --- what is refused

#: A construct, and why it is refused.
_Problem = tuple[str, str]


def _check(node: logical.Node, *, top: bool = False) -> None:
    """Raises UserError unless the relation of a node, over a part of the records, is a part of its relation."""
    problems = (_of_scan(node), _of_negation(node), _of_instants(node, top=top), _REFUSED.get(type(node)))
    for what, why in filter(None, problems):
        hint = "use MAX_ERROR for COUNT, SUM and AVG" if isinstance(node, logical.GroupBy) else "omit MAX_LOSS"
        raise UserError(f"MAX_LOSS is not possible over {what}: {why}", hint=hint)
    for below in inputs(node):
        _check(below, top=top and isinstance(node, logical.Project))


def _of_scan(node: logical.Node) -> _Problem | None:
    match node:
        case logical.StreamScan(promises=(_, *_)):
            why = "whether a record of it is refused depends on other records"
            return f'a source with CLUSTERED BY or REFERENCES, "{node.source.name}"', why
        case logical.StreamScan(keys=(_, *_)):
            return f'a keyed stream or table, "{node.stream}"', "if a record is left out, the old row of its key stays"
        case logical.Apply() if node.function.partition is not None or node.function.traces():
            return "a function of several rows", "some of the rows may be left out"
    return None


def _of_negation(node: logical.Node) -> _Problem | None:
    present = "a row would be in the result because another row is left out"
    match node:
        case logical.Join() if node.outer != "none":
            return "an outer join", "a row whose partner is left out would be padded with NULL"
        case logical.SemiJoin() if node.anti:
            return "the right side of a negation", present
        case logical.SetOperation() if node.kind.startswith("except"):
            return "EXCEPT", present
    return None


def _of_instants(node: logical.Node, *, top: bool) -> _Problem | None:
    """Why rows of the node could be in the result at instants at which they are not in the exact result."""
    match node:
        case logical.Sync() if not isinstance(node.points, Periodic):
            return "a synchronised relation", "leaving out a record could remove a point of synchronisation"
        case logical.ToStream():
            return _of_stream(node, top=top)
        case logical.Sample() if not _reads_single_records(node.input):
            return "a sample of a derived stream", "which rows it keeps depends on which records are left out"
        case logical.TimeWindow(length=None, slide=1):
            return None
        case logical.TimeWindow() | logical.Restamp() if not _has_fixed_instants(node.input):
            return "a window over, or the TS of, rows of several records", _LATER
    return None


def _of_stream(node: logical.ToStream, *, top: bool) -> _Problem | None:
    """The rows of Istream over an append-only relation are those of the relation. A stream that is read on must also
    have its rows at the same instants."""
    if node.kind == "rstream" and top:
        return None
    if node.kind != "istream" or not append_only(node.input):
        why = "whether a row enters or leaves depends on equal rows, which may be left out"
        return f"{node.kind.capitalize()} of rows that can leave", why
    if not top and not _has_fixed_instants(node.input):
        return "a stream of rows of several records", _LATER
    return None


def _has_fixed_instants(node: logical.Node) -> bool:
    """Whether a row of an append-only relation enters at the same instant, whatever other records are left out."""
    merging = logical.Distinct | logical.SemiJoin | logical.SetOperation | logical.Sync
    return append_only(node) and not any(isinstance(below, merging) or keys(below) for below in walk(node))
