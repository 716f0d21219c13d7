"""The order in which the rows of a relation came, as columns that windows, cancellation and pruning keep.

A row that leaves a window cancels an equal one that comes at the same instant, and projections make rows equal. What
reads the order of rows would then take the new row for the old one. So it gets rows that have the instant and the
record that they come from, by which equal rows differ, and sorts by these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dsms.model import logical
from dsms.model.properties import append_only, inputs, walk
from dsms.model.rebuild import with_inputs
from dsms.model.schema import schema
from dsms.sql.binder.conditions import Output, fresh, own_columns
from operators.aggregates.reads_arrival import reads_arrival
from operators.core.sort_key import SortKey
from operators.expressions import Column, Expression, call, column
from operators.streams.stamp import RECORD
from operators.streams.tagger import TS

#: Nodes with the rows of their input, or some of them: they keep its columns.
_KEEPING = (
    logical.Filter
    | logical.TimeWindow
    | logical.RowWindow
    | logical.NowFilter
    | logical.Sample
    | logical.Sync
    | logical.Unnest
    | logical.Assign
    | logical.Session
    | logical.WindowFunctions
    | logical.Final
)


@dataclass(frozen=True)
class Arrived:
    """A plan with the `columns` by which its rows are in the order in which they came; rows that are equal in these
    are in the order of their changes."""

    node: logical.Node
    columns: tuple[str, ...]

    @property
    def order(self) -> tuple[SortKey, ...]:
        """The keys that sort the rows."""
        return tuple(SortKey(name) for name in self.columns)


def in_order_of_arrival(node: logical.GroupBy) -> logical.GroupBy:
    """The groups, where aggregates that read the order of rows sort them by the columns of arrival.

    Not where rows only come, each at its own instant: they are in order. Not for DISTINCT, which takes many rows for
    one. Rows of relations that have no such columns, as groups and outer joins, stay in the order of their changes.
    """
    columns = schema(node.input)
    reading = [each for each in node.aggregates if not each.distinct and reads_arrival(each, columns)]
    if not reading or _comes_in_order(node.input) or (arrived := with_arrival(node.input)) is None:
        return node
    aggregates = tuple(
        replace(each, order_by=(*each.order_by, *arrived.order), arrivals=len(arrived.order))
        if each in reading
        else each
        for each in node.aggregates
    )
    return replace(node, input=arrived.node, aggregates=aggregates)


def breaking_ties(node: logical.Node) -> Arrived:
    """The plan with the columns by which rows that tie in ORDER BY are in the order in which they came; without any
    where no window is below: there the order of changes is the same."""
    windows = logical.TimeWindow | logical.RowWindow | logical.NowFilter | logical.Sync
    if any(isinstance(below, windows) for below in walk(node)):
        return with_arrival(node) or Arrived(node, ())
    return Arrived(node, ())


def _comes_in_order(node: logical.Node) -> bool:
    """Whether rows never leave, and come at the instants of their records."""
    return append_only(node) and not any(isinstance(below, logical.Sync) for below in walk(node))


def with_arrival(node: logical.Node) -> Arrived | None:
    """The plan with columns of arrival besides its own; None where rows are not those of records."""
    match node:
        case logical.StreamScan(keys=()):
            return Arrived(replace(node, numbered=True), (TS, RECORD))
        case logical.StreamScan() | logical.Restamp():
            return Arrived(node, (TS,))
        case logical.Project():
            return _projected(node)
        case logical.Union():
            return _united(node)
        case logical.Join(outer="none"):
            return _joined(node)
        case _ if isinstance(node, _KEEPING) and (below := with_arrival(node.input)) is not None:
            return replace(below, node=with_inputs(node, (below.node, *inputs(node)[1:])))
    return None


def _projected(node: logical.Project) -> Arrived | None:
    if (below := with_arrival(node.input)) is None:
        return None
    made = _hidden(below, [name for name, _ in node.outputs])
    return Arrived(logical.Project(below.node, (*node.outputs, *made)), tuple(name for name, _ in made))


def _hidden(arrived: Arrived, taken: Sequence[str]) -> list[Output]:
    """The columns of arrival under names that are not taken."""
    fields, names = schema(arrived.node), list(taken)
    made: list[Output] = []
    for at, name in enumerate(arrived.columns):
        made.append((fresh(f"__arrived{at}", names), column(fields.field(name))))
        names.append(made[-1][0])
    return made


def _united(node: logical.Union) -> Arrived | None:
    """The branches, each projected to its own columns and those columns of arrival that all have."""
    branches = [with_arrival(branch) for branch in node.inputs]
    known = [branch for branch in branches if branch is not None]
    if len(known) < len(branches):
        return None
    shared = min(len(branch.columns) for branch in known)
    names = [fresh(f"__arrived{at}", list(schema(node).names)) for at in range(shared)]
    parts = []
    for branch, had in zip(known, node.inputs, strict=True):
        fields = schema(branch.node)
        kept = [(name, column(fields.field(own))) for name, own in zip(names, branch.columns, strict=False)]
        parts.append(logical.Project(branch.node, (*own_columns(had), *kept)))
    return Arrived(logical.Union(tuple(parts)), tuple(names))


def _joined(node: logical.Join) -> Arrived | None:
    """A pair comes with the later of its rows."""
    left_arrived, right_arrived = with_arrival(node.left), with_arrival(node.right)
    if left_arrived is None or right_arrived is None:
        return None
    taken, sides = list(schema(node).names), []
    for had, arrived in ((node.left, left_arrived), (node.right, right_arrived)):
        hidden = _hidden(arrived, taken)
        taken += [name for name, _ in hidden]
        sides.append((logical.Project(arrived.node, (*own_columns(had), *hidden)), hidden))
    (left, lefts), (right, rights) = sides
    joined = replace(node, left=left, right=right)
    fields = schema(joined)
    mine, theirs = ([column(fields.field(name)) for name, _ in hidden] for hidden in (lefts, rights))
    later: list[Output] = [(fresh("__arrived0", taken), call("greatest", mine[0], theirs[0]))]
    if len(mine) == len(theirs) == 2:
        later.append((fresh("__arrived1", [*taken, later[0][0]]), _later_record(mine, theirs)))
    return Arrived(logical.Project(joined, (*own_columns(node), *later)), tuple(name for name, _ in later))


def _later_record(mine: Sequence[Column], theirs: Sequence[Column]) -> Expression:
    (at, record), (other_at, other) = mine, theirs
    both = call("greatest", record, other)
    return call("case", call("greater", at, other_at), record, call("less", at, other_at), other, both)
