"""The measured operators, each over a relation of a given size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from benchmarks.delta_law.flow import Flow, Input, Subject
from benchmarks.delta_law.table import CHANGE, INSTANTS, LOADS, Table
from operators.aggregates.aggregate import Aggregate
from operators.core.delta import BEGINNING, Delta
from operators.core.operator import Move
from operators.core.sort_key import SortKey
from operators.grouping.group_by import GroupBy
from operators.joins.join import Join
from operators.ranking.top_k import TopK
from operators.relational.distinct import Distinct

ROW = pa.schema([("k", pa.int64()), ("i", pa.int64()), ("v", pa.int64())])
#: If groups have several rows, a change touches this number of groups, and five rows of each. The smallest state has no
#: more groups.
TOUCHED = 1_000
COUNT = Aggregate("n", "count", (), pa.int64(), nullable=False)
SUM = Aggregate("total", "sum", ("v",), pa.int64())
LEAST, GREATEST = Aggregate("low", "min", ("v",), pa.int64()), Aggregate("high", "max", ("v",), pa.int64())
BEST = TopK(("k",), (SortKey("v", descending=True),), 3, schema=ROW)


@dataclass(slots=True)
class OneTable:
    """An operator over one table. A change replaces rows in `groups` groups."""

    flow: Flow
    table: Table
    groups: int
    changes: int = field(init=False, default=0)

    def load(self) -> Iterator[Input]:
        """All rows."""
        for part, delta in enumerate(self.table.parts()):
            yield Input((delta,), _loading(part))

    def change(self) -> Input:
        """The next change."""
        move = _changing(self.changes)
        self.changes += 1
        return Input((self.table.replace(self.table.places(CHANGE // 2, self.groups), move.start),), move)


@dataclass(slots=True)
class TwoTables:
    """A join of two tables of half the rows each, in which every row has one partner."""

    flow: Flow
    left: Table
    right: Table
    changes: int = field(init=False, default=0)

    def load(self) -> Iterator[Input]:
        """All rows of both."""
        for part, (left, right) in enumerate(zip(self.left.parts(), self.right.parts(), strict=True)):
            yield Input((left, _primed(right)), _loading(part))

    def change(self) -> Input:
        """Replaces rows of both sides, never two partners."""
        move = _changing(self.changes)
        self.changes += 1
        places = self.left.places(CHANGE // 2, CHANGE // 2)
        ours, theirs = places[: CHANGE // 4], places[CHANGE // 4 :]
        return Input((self.left.replace(ours, move.start), _primed(self.right.replace(theirs, move.start))), move)


def _primed(delta: Delta) -> Delta:
    return Delta(delta.frame.rename({"k": "k2", "i": "i2", "v": "v2"}))


def _loading(part: int) -> Move:
    return Move(part if part else BEGINNING, part + 1)


def _changing(number: int) -> Move:
    start = LOADS + number * INSTANTS
    return Move(start, start + INSTANTS)


def _join(rows: int) -> Subject:
    return TwoTables(Flow((Join(("k",), ("k2",)),)), Table(rows // 2), Table(rows // 2))


def _over_rows(operator: object) -> Callable[[int], Subject]:
    """Each row is a group: there are as many groups as rows."""
    return lambda rows: OneTable(Flow((operator,)), Table(rows), CHANGE // 2)


def _over_groups(operator: object) -> Callable[[int], Subject]:
    """Groups of ten rows: the number of groups grows with the rows."""
    return lambda rows: OneTable(Flow((operator,)), Table(rows, 10), TOUCHED)


def _over_large_groups(operator: object) -> Callable[[int], Subject]:
    """A thousand groups: their size grows with the rows."""
    return lambda rows: OneTable(Flow((operator,)), Table(rows, rows // TOUCHED), TOUCHED)


EXTREMES = GroupBy(("k",), (LEAST, GREATEST), ROW)
SUBJECTS: dict[str, Callable[[int], Subject]] = {
    "join": _join,
    "group-by": _over_rows(GroupBy(("k",), (COUNT, SUM), ROW)),
    "distinct": _over_rows(Distinct()),
    "min/max": _over_groups(EXTREMES),
    "min/max, large groups": _over_large_groups(EXTREMES),
    "top-k": _over_groups(BEST),
    "top-k, large groups": _over_large_groups(BEST),
}
