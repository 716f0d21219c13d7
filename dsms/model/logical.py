"""The nodes of the bound logical plan. `schema` and `properties` derive their columns and other properties."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import pyarrow as pa

from dsms.model.objects import Source
from operators.aggregates.aggregate import Aggregate
from operators.core.sort_key import SortKey
from operators.core.stored_names import ADDED_LATER
from operators.expressions import Column, Expression
from operators.joins.asof_join import Comparison
from operators.ranking.window_call import WindowCall
from operators.recursion.term import Rule
from operators.relational.members import Roster
from operators.streams.shed import Value
from operators.sync.sync_points import Periodic
from operators.table_functions.function import RelationOperator
from operators.windows.now_filter import NowRange


@dataclass(frozen=True)
class Cluster:
    """Promise: all records with the same value of a column are at most `within` instants apart."""

    column: str
    within: int


@dataclass(frozen=True)
class Reference:
    """Promise: each record references a record of another source, which is at most `within` instants earlier and has
    the value of `column` in its column `theirs`.
    """

    column: str
    within: int
    other: StreamScan
    theirs: str


@dataclass(frozen=True)
class StreamScan:
    """ℜ(S), the relation that a tagged stream over a source changes, with the column TS. Without keys it is
    append-only. If it is a `bag`, `keys` are all columns, and rows may be equal.

    Records before the instant `start` are ignored, as are records before the offsets in `first`, which are pairs of a
    partition and an offset. Records that break a promise are refused. If `numbered`, rows also have the number of their
    record, which orders rows of the same instant. `created_as` is the stream's name at its creation if it was renamed.
    """

    source: Source
    stream: str
    keys: tuple[str, ...]
    start: int | None = None
    promises: tuple[Cluster | Reference, ...] = ()
    first: tuple[tuple[int, int], ...] = field(default=(), metadata={ADDED_LATER: True})
    numbered: bool = field(default=False, metadata={ADDED_LATER: True})
    bag: bool = field(default=False, metadata={ADDED_LATER: True})
    created_as: str = field(default="", compare=False)

    @property
    def as_created(self) -> StreamScan:
        """The scan with the name that the stream had at first."""
        return replace(self, stream=self.created_as, created_as="") if self.created_as else self


@dataclass(frozen=True)
class Values:
    """A constant relation: the same rows at every instant."""

    schema: pa.Schema
    rows: tuple[tuple[object, ...], ...]


@dataclass(frozen=True)
class Filter:
    """The rows for which a predicate is TRUE."""

    input: Node
    predicate: Expression


@dataclass(frozen=True)
class Project:
    """One row for each input row, with the values of named expressions over it."""

    input: Node
    outputs: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True)
class Restamp:
    """ℜ(V): the rows of the view V with the additional column TS, the instant at which V last changed the row."""

    input: Node
    view: str


@dataclass(frozen=True)
class Join:
    """The pairs of rows whose columns in `on` are equal and for which `residual` is TRUE, with the columns of both
    sides, whose names are disjoint. `outer` names the side whose rows without a partner are kept, padded with NULLs.
    Without `on` and `residual`, it is a cross product.

    The two columns of a pair in `on` have the same type. With `nulls_equal`, NULL equals NULL.
    """

    left: Node
    right: Node
    on: tuple[tuple[str, str], ...]
    residual: Expression | None = None
    outer: Literal["none", "left", "right", "full"] = "none"
    nulls_equal: bool = False


@dataclass(frozen=True)
class SemiJoin:
    """The rows of `left` that have a partner in `right` or, if `anti`, those that have none. Each row keeps its
    multiplicity in `left`."""

    left: Node
    right: Node
    on: tuple[tuple[str, str], ...]
    residual: Expression | None = None
    anti: bool = False
    nulls_equal: bool = False


@dataclass(frozen=True)
class Union:
    """UNION ALL of inputs with equal column names and types."""

    inputs: tuple[Node, ...]


@dataclass(frozen=True)
class Distinct:
    """The rows without duplicates."""

    input: Node


@dataclass(frozen=True)
class Recurrence:
    """A reference to a recursive relation within its own rules, which stands for the rows derived so far. This leaf
    occurs only while a plan is being bound. `depth` is the nesting depth of its WITH RECURSIVE.
    """

    number: int
    depth: int
    columns: pa.Schema


@dataclass(frozen=True)
class Recursion:
    """WITH RECURSIVE: several relations, defined by rules over `inputs` and over each other. They are the least sets
    that contain all rows that their rules derive. The relation of the node is number `output` of them; `name` is the
    name of the first.
    """

    inputs: tuple[Node, ...]
    relations: tuple[pa.Schema, ...]
    rules: tuple[Rule, ...]
    output: int
    name: str = field(default="", compare=False)


@dataclass(frozen=True)
class SetOperation:
    """EXCEPT and INTERSECT; the kinds with ALL respect multiplicities. Both sides have equal column names and types."""

    left: Node
    right: Node
    kind: Literal["except", "except_all", "intersect", "intersect_all"]


@dataclass(frozen=True)
class GroupBy:
    """One row for each group: its key columns, then the aggregates. Without keys, there is always exactly one row.

    `bound` names a key column that bounds the group in time: from the instant in this column on, the group does not
    change.
    """

    input: Node
    keys: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    bound: str | None = None


@dataclass(frozen=True)
class TopK:
    """The rows of each partition whose rank by `order` is in (offset, offset + limit]. If `limit` is None, all ranks
    above `offset` are included.

    `method` determines the ranks of equal rows. `rank` names an additional column with the rank. With `row_number`, the
    older of two equal rows comes first, by instant, then by order of arrival.
    """

    input: Node
    partition: tuple[str, ...]
    order: tuple[SortKey, ...]
    limit: int | None
    offset: int = 0
    method: Literal["row_number", "rank", "dense_rank"] = "row_number"
    rank: str | None = None


@dataclass(frozen=True)
class WindowFunctions:
    """SQL's OVER: each row with additional columns, which are functions of the rows of its partition."""

    input: Node
    calls: tuple[WindowCall, ...]


@dataclass(frozen=True)
class Unnest:
    """One row for each element of the array in `column`, with the element in the additional column `output`. A row with
    an empty array is dropped or, if `outer`, kept with NULL.
    """

    input: Node
    column: str
    output: str
    outer: bool = False


@dataclass(frozen=True)
class Sample:
    """CQL's `Sample(p)`: a percentage of the rows. A row is chosen by the hash of its record's position, or of its
    `keys`. Nested samples have different `number`s, which makes them independent.
    """

    input: Node
    percent: float
    keys: tuple[str, ...] = ()
    number: int = 0


@dataclass(frozen=True)
class Shed:
    """Load shedding: the rows that `query` keeps, each with its `__share`, the number of rows that it represents. The
    error of the results is estimated from the columns `keys` and `values`. If `where` is given, only rows whose column
    `where` is TRUE may be dropped. If `merged`, a group of the result may consist of several groups of `keys`.
    With `by`, the hash of these columns decides, so rows that are equal in them are kept or dropped together; otherwise
    the position of the row's record decides. If `prefers` names a column, the rate of a row may depend on its value
    there.
    """

    input: Node
    query: str
    keys: tuple[str, ...]
    values: tuple[Value, ...]
    where: str | None = None
    merged: bool = field(default=False, metadata={ADDED_LATER: True})
    by: tuple[str, ...] = field(default=(), metadata={ADDED_LATER: True})
    prefers: str = field(default="", metadata={ADDED_LATER: True})


@dataclass(frozen=True)
class Apply:
    """A table function applied to a relation. `function` itself provides its columns, keys and other properties."""

    input: Node
    function: RelationOperator


@dataclass(frozen=True)
class TimeWindow:
    """CQL's `[Range T Slide L]` over a stream: a row stays for `length` instants after its own; if `length` is None,
    forever.
    """

    input: Node
    length: int | None
    slide: int = 1


@dataclass(frozen=True)
class RowWindow:
    """CQL's `[Partition By … Rows N Slide L]` over a stream: the last `rows` rows of each partition."""

    input: Node
    rows: int
    partition: tuple[str, ...] = ()
    slide: int = 1


@dataclass(frozen=True)
class Assign:
    """SQL's TUMBLE, HOP and CUMULATE: one row for each window that contains the row's `column`, with the additional
    columns `window_start` and `window_end`."""

    input: Node
    kind: Literal["hop", "cumulate"]
    column: str
    size: int
    slide: int
    offset: int = 0


@dataclass(frozen=True)
class Session:
    """SQL's SESSION: each row with `window_start` and `window_end` of its session. A session is a maximal chain of rows
    of a partition in which neighbours are at most `gap` apart."""

    input: Node
    column: str
    gap: int
    partition: tuple[str, ...] = ()


@dataclass(frozen=True)
class NowFilter:
    """Predicates over Now: at τ, the relation has the rows for which one of the ranges contains τ."""

    input: Node
    ranges: tuple[NowRange, ...]


@dataclass(frozen=True)
class Sync:
    """ℜ[Sync](S): the relation of `input` at the last synchronisation point; empty before the first point.

    `points` are periodic, or the instants at which rows enter a relation."""

    input: Node
    points: Periodic | Node


@dataclass(frozen=True)
class ToStream:
    """CQL's Istream (rows that enter the relation), Dstream (rows that leave it) or Rstream (all its rows at each
    instant, or at each of `points`), as an append-only stream.
    """

    input: Node
    kind: Literal["istream", "dstream", "rstream"]
    points: Periodic | None = None


@dataclass(frozen=True)
class AsofJoin:
    """Each row of `left` with its nearest partner in `right`.

    A partner has equal columns in `on` and satisfies `left_time comparison right_time`. Of several partners, the one
    with the nearest `right_time` is taken. If several are equally near, it is the least of them by all columns of
    `right` from left to right, NULLs last. `outer` keeps the rows of `left` without a partner, padded with NULLs.
    Column names are disjoint; the two columns of a pair in `on` have the same type, and so do the two times.
    """

    left: Node
    right: Node
    on: tuple[tuple[str, str], ...]
    left_time: str
    right_time: str
    comparison: Comparison = "greater_or_equal"
    outer: bool = False


@dataclass(frozen=True)
class Final:
    """EMIT FINAL: each row of `input` once it is final, that is, `after` instants after the instant in its column
    `bound`.
    """

    input: Node
    bound: str
    after: int = 0


@dataclass(frozen=True)
class Members:
    """The filters of all members of a family, that is, of queries whose plans differ only in constants.

    Each row occurs once for every member whose constants, substituted for `parameters`, make the predicate TRUE; the
    column `__member` has the member. If `known`, the input already has this column. The `roster` of members is not part
    of the plan's identity, because queries join and leave the family while the plan runs.
    """

    input: Node
    family: str
    predicate: Expression
    parameters: tuple[Column, ...]
    known: bool = False
    roster: Roster = field(default=Roster(), repr=False, compare=False)


Node = (
    StreamScan | Values | Filter | Project | Restamp | Join | SemiJoin | Union | Distinct | Recurrence | Recursion
    | SetOperation | GroupBy
    | TopK | WindowFunctions | Unnest | Sample | Shed | TimeWindow | RowWindow | Assign | Session | NowFilter | Sync
    | ToStream | Apply | AsofJoin | Final | Members
)  # fmt: skip
