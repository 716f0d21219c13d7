"""Adds columns with the arrival order of a relation's rows; windows, cancellation and pruning keep these columns.

A row that leaves a window cancels with an equal row that arrives at the same instant, and projections can make
different rows equal. An operator that reads the order of rows would then mistake the new row for the old one. Therefore
its input gets the instant and the number of each row's record as columns: by these equal rows differ, and the operator
sorts by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dsms.model import logical
from dsms.model.properties import append_only, inputs, walk
from dsms.model.replace_inputs import with_inputs
from dsms.model.schema import schema
from dsms.sql.binder.scalars.conditions import Output, fresh, own_columns
from operators.aggregates.reads_arrival import reads_arrival
from operators.core.sort_key import SortKey
from operators.expressions import Column, Expression, call, column
from operators.streams.stamp import RECORD
from operators.streams.tagger import TS

#: Nodes that output all or some rows of their input and keep its columns.
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


def breaking_ties(node: logical.Node) -> Arrived:
    """The plan with arrival columns, which order the rows that tie in ORDER BY. Adds no columns if the plan contains no
    window: then the order of changes is the arrival order."""
    windows = logical.TimeWindow | logical.RowWindow | logical.NowFilter | logical.Sync
    if any(isinstance(below, windows) for below in walk(node)):
        return with_arrival(node) or Arrived(node, ())
    return Arrived(node, ())


def _comes_in_order(node: logical.Node) -> bool:
    """Whether rows never leave, and each arrives at the instant of its record."""
    return append_only(node) and not any(isinstance(below, logical.Sync) for below in walk(node))


def with_arrival(node: logical.Node) -> Arrived | None:
    """The plan with arrival columns added to its own; None if its rows cannot be traced to records, as those of groups
    and outer joins."""
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
    """The arrival columns, under names that are not `taken`."""
    fields, names = schema(arrived.node), list(taken)
    made: list[Output] = []
    for at, name in enumerate(arrived.columns):
        made.append((fresh(f"__arrived{at}", names), column(fields.field(name))))
        names.append(made[-1][0])
    return made


def _united(node: logical.Union) -> Arrived | None:
    """The branches, each projected to its own columns and the arrival columns that all branches have."""
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
    later: list[Output] = [(fresh("__arrived0", taken), call("greatest", mine[0], theirs[0]))]
    if len(mine) == len(theirs) == 2:
        later.append((fresh("__arrived1", [*taken, later[0][0]]), _later_record(mine, theirs)))
    return Arrived(logical.Project(joined, (*own_columns(node), *later)), tuple(name for name, _ in later))


def _later_record(mine: Sequence[Column], theirs: Sequence[Column]) -> Expression:
    (at, record), (other_at, other) = mine, theirs
    both = call("greatest", record, other)
    return call("case", call("greater", at, other_at), record, call("less", at, other_at), other, both)
