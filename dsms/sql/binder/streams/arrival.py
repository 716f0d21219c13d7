"""Adds columns with the arrival order of a relation's rows: the instant and, for streams, the number of each record.

Operators that read the order of rows, such as FIRST_VALUE, sort by these columns. Otherwise they would take the rows in
the order of the changes, which is wrong above a window: a row that leaves it cancels with an equal row that arrives at
the same instant, so the new row would keep the place of the old one. Such rows are not equal in these columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dsms.model import logical
from dsms.model.properties import append_only, inputs, walk
from dsms.model.replace_inputs import with_inputs
from dsms.model.schema import schema
from dsms.sql.binder.scalars.conditions import Output, own_columns, unique_name
from operators.aggregates.reads_arrival import reads_arrival
from operators.core.sort_key import SortKey
from operators.expressions import Column, Expression, call, column
from operators.streams.stamp import RECORD
from operators.streams.tagger import TS

#: Nodes that output all or some rows of their input and keep its columns.
_KEEPS_COLUMNS = (
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
class PlanWithArrival:
    """A plan whose `columns` give the arrival order of its rows; rows that are equal in them are in the order of their
    changes."""

    node: logical.Node
    columns: tuple[str, ...]

    @property
    def order(self) -> tuple[SortKey, ...]:
        """The keys that sort the rows."""
        return tuple(SortKey(name) for name in self.columns)


def in_order_of_arrival(node: logical.GroupBy) -> logical.GroupBy:
    """The groups; their aggregates that read the order of rows now also sort by the arrival columns.

    Leaves the groups as they are if the input is append-only and each row arrives at the instant of its record: then
    its rows are already in order. Leaves aggregates with DISTINCT as they are, because DISTINCT merges equal rows. The
    rows of relations without arrival columns, such as groups and outer joins, stay in the order of their changes.
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


def breaking_ties(node: logical.Node) -> PlanWithArrival:
    """The plan with arrival columns, which order the rows that tie in ORDER BY. Adds no columns if the plan contains no
    window: then the order of changes is the arrival order."""
    windows = logical.TimeWindow | logical.RowWindow | logical.NowFilter | logical.Sync
    if any(isinstance(below, windows) for below in walk(node)):
        return with_arrival(node) or PlanWithArrival(node, ())
    return PlanWithArrival(node, ())


def _comes_in_order(node: logical.Node) -> bool:
    """Whether rows never leave, and each arrives at the instant of its record."""
    return append_only(node) and not any(isinstance(below, logical.Sync) for below in walk(node))


def with_arrival(node: logical.Node) -> PlanWithArrival | None:
    """The plan with arrival columns added to its own; None if its rows do not stem from single records, for example
    groups, and rows of outer joins."""
    match node:
        case logical.StreamScan(keys=()):
            return PlanWithArrival(replace(node, numbered=True), (TS, RECORD))
        case logical.StreamScan() | logical.Restamp():
            return PlanWithArrival(node, (TS,))
        case logical.Project():
            return _projected(node)
        case logical.Union():
            return _united(node)
        case logical.Join(outer="none"):
            return _joined(node)
        case _ if isinstance(node, _KEEPS_COLUMNS) and (below := with_arrival(node.input)) is not None:
            return replace(below, node=with_inputs(node, (below.node, *inputs(node)[1:])))
    return None


def _projected(node: logical.Project) -> PlanWithArrival | None:
    if (below := with_arrival(node.input)) is None:
        return None
    made = _hidden(below, [name for name, _ in node.outputs])
    return PlanWithArrival(logical.Project(below.node, (*node.outputs, *made)), tuple(name for name, _ in made))


def _hidden(arrived: PlanWithArrival, taken: Sequence[str]) -> list[Output]:
    """The arrival columns, under names that are not `taken`."""
    fields, names = schema(arrived.node), list(taken)
    made: list[Output] = []
    for at, name in enumerate(arrived.columns):
        made.append((unique_name(f"__arrived{at}", names), column(fields.field(name))))
        names.append(made[-1][0])
    return made


def _united(node: logical.Union) -> PlanWithArrival | None:
    """The branches, each projected to its own columns and the arrival columns that all branches have."""
    branches = [with_arrival(branch) for branch in node.inputs]
    known = [branch for branch in branches if branch is not None]
    if len(known) < len(branches):
        return None
    shared = min(len(branch.columns) for branch in known)
    names = [unique_name(f"__arrived{at}", list(schema(node).names)) for at in range(shared)]
    parts = []
    for branch, had in zip(known, node.inputs, strict=True):
        fields = schema(branch.node)
        kept = [(name, column(fields.field(own))) for name, own in zip(names, branch.columns, strict=False)]
        parts.append(logical.Project(branch.node, (*own_columns(had), *kept)))
    return PlanWithArrival(logical.Union(tuple(parts)), tuple(names))


def _joined(node: logical.Join) -> PlanWithArrival | None:
    """The join; a pair arrives with the later of its two rows."""
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
    later: list[Output] = [(unique_name("__arrived0", taken), call("greatest", mine[0], theirs[0]))]
    if len(mine) == len(theirs) == 2:
        later.append((unique_name("__arrived1", [*taken, later[0][0]]), _later_record(mine, theirs)))
    return PlanWithArrival(logical.Project(joined, (*own_columns(node), *later)), tuple(name for name, _ in later))


def _later_record(mine: Sequence[Column], theirs: Sequence[Column]) -> Expression:
    (at, record), (other_at, other) = mine, theirs
    both = call("greatest", record, other)
    return call("case", call("greater", at, other_at), record, call("less", at, other_at), other, both)
