"""The running operators, queues, synopses and constraints as entities with attributes: STREAM's control tables (section
6.1)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Literal, TypeVar

import msgspec

from dsms.introspection.operator_metrics import Operator

Kind = Literal["operators", "queues", "synopses", "constraints", "paths"]


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """The waiting input of a stage of a lane (queries that run as one dataflow): for the source stage, the unread
    records of a source partition (`source` and `partition`); for a later stage, the rows that wait before it.
    """

    id: str
    fragment: str
    lane: str
    queries: tuple[str, ...]
    stage: int = 0
    source: str | None = None
    partition: int | None = None
    #: The next offset to read, and the end of the partition; None if it is not known.
    next_offset: int | None = None
    end_offset: int | None = None
    #: The number of waiting rows or records, and their bytes; None if it is not known.
    rows: int | None = None
    bytes: int | None = None


class Synopsis(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an operator: its traces, and their distribution over the targets."""

    id: str
    fragment: str
    lane: str
    operator: str
    queries: tuple[str, ...]
    traces: int = 0
    rows: int = 0
    bytes: int = 0
    rows_by_target: tuple[int, ...] = ()


class Adherence(msgspec.Struct, frozen=True, kw_only=True):
    """How well the records that a lane has read kept a source's constraint on a column: in a partition or, if the
    constraint spans partitions, in all of them (`partition` is None).
    """

    id: str
    fragment: str
    lane: str
    queries: tuple[str, ...]
    source: str
    partition: int | None
    column: str
    #: The constraint as it is written in SQL.
    promise: str
    #: The promised bound; None if nothing is promised and the column is only watched.
    k: int | None = None
    #: The largest k seen. For an ordered column, the greatest distance of a value below the greatest value before it,
    #: including refused records. Otherwise, the largest distance between accepted records.
    worst: int = 0
    #: The number of records that broke the constraint and were refused.
    violations: int = 0


class PathStage(msgspec.Struct, frozen=True, kw_only=True):
    """A stage of a lane as the scheduler sees it: an operator of a path, its place in the progress chart, and what
    waits before it. What has not been measured yet is None.
    """

    id: str
    fragment: str
    lane: str
    queries: tuple[str, ...]
    stage: int
    seconds_per_byte: float | None = None
    #: Bytes out per byte in.
    selectivity: float | None = None
    #: The point of the progress chart after this stage: the seconds of work on a byte that was read, and what is left
    #: of it.
    chart_seconds: float | None = None
    chart_size: float | None = None
    #: The number of its chain, from 1, and the slope of the chain: the change of the size per second.
    chain: int | None = None
    chain_slope: float | None = None
    waiting_bytes: int = 0
    #: How long the oldest input has waited.
    waiting_seconds: float | None = None
    weight: float = 1.0
    #: The tag of the lane, from that of the lane that was served last.
    seconds_ahead: float = 0.0


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The report of an executor on a fragment. `at` is the time in seconds since 1970."""

    executor: str
    fragment: str
    at: float
    operators: tuple[Operator, ...] = ()
    queues: tuple[Queue, ...] = ()
    synopses: tuple[Synopsis, ...] = ()
    constraints: tuple[Adherence, ...] = ()
    paths: tuple[PathStage, ...] = ()


Entity = Operator | Queue | Synopsis | Adherence | PathStage
_E = TypeVar("_E", Operator, Queue, Synopsis, Adherence, PathStage)


def load_by_fragment(reports: Iterable[Report]) -> dict[str, float]:
    """Busy seconds per second of all operators of each fragment."""
    return {report.fragment: sum(operator.load for operator in report.operators) for report in reports}


def load_by_queries(reports: Iterable[Report]) -> dict[tuple[str, frozenset[str]], float]:
    """Busy seconds per second of operators, by their fragment and the names of the queries and shared subplans that
    they serve."""
    loads: dict[tuple[str, frozenset[str]], float] = defaultdict(float)
    for report in reports:
        for operator in report.operators:
            loads[report.fragment, frozenset(operator.queries)] += operator.load
    return dict(loads)


@dataclass(frozen=True)
class QueryUsage:
    """The cores that the operators of a query use, where shared operators count in parts, and the bytes of all state
    that the query uses."""

    load: float = 0.0
    state_bytes: int = 0


def usage_of(operators: Collection[Operator]) -> QueryUsage:
    """What a query uses that has these operators."""
    load = sum(operator.load / len(operator.queries) for operator in operators)
    return QueryUsage(load, sum(operator.state_bytes for operator in operators))


def usage_by_query(reports: Iterable[Report]) -> dict[str, QueryUsage]:
    """What the operators of each query use, by its name.

    >>> shared = Operator(id="a", fragment="0", lane="0", stage=1, queries=("p", "q"), operator="Join",
    ...     load=0.5, state_bytes=8)
    >>> usage_by_query([Report(executor="e", fragment="0", at=0.0, operators=(shared,))])["q"]
    QueryUsage(load=0.25, state_bytes=8)
    """
    used = defaultdict[str, list[Operator]](list)
    for operator in (operator for report in reports for operator in report.operators):
        for name in operator.queries:
            used[name].append(operator)
    return {name: usage_of(operators) for name, operators in used.items()}


def entities(report: Report, kind: Kind) -> tuple[Entity, ...]:
    """The entities of a kind."""
    by_kind: dict[Kind, tuple[Entity, ...]] = {
        "operators": report.operators,
        "queues": report.queues,
        "synopses": report.synopses,
        "constraints": report.constraints,
        "paths": report.paths,
    }
    return by_kind[kind]


def belongs_to(entity: Entity, query: str | None) -> bool:
    """Whether an entity belongs to a query, whose name is compared ignoring case; True if `query` is None."""
    return query is None or query.lower() in map(str.lower, entity.queries)


def readable_part(report: Report, may_read: Callable[[str], bool]) -> Report:
    """The report as a caller may see it: only entities of queries that the caller may read, without the names of other
    queries.

    >>> queue = Queue(id="a", fragment="0", lane="0", queries=("mine", "theirs"))
    >>> other = msgspec.structs.replace(queue, queries=("theirs",))
    >>> report = Report(executor="e", fragment="0", at=0.0, queues=(queue, other))
    >>> [queue.queries for queue in readable_part(report, lambda name: name == "mine").queues]
    [('mine',)]
    """

    def readable(entities: Iterable[_E]) -> tuple[_E, ...]:
        named = ((entity, tuple(filter(may_read, entity.queries))) for entity in entities)
        return tuple(msgspec.structs.replace(entity, queries=queries) for entity, queries in named if queries)

    return msgspec.structs.replace(
        report,
        operators=readable(report.operators),
        queues=readable(report.queues),
        synopses=readable(report.synopses),
        constraints=readable(report.constraints),
        paths=readable(report.paths),
    )


def listed(names: tuple[str, ...], most: int = 5) -> str:
    """The first names, and the number of the others.

    >>> listed(("a", "b")), listed(tuple(f"q{at}" for at in range(9)), 2)
    ('a, b', 'q0, q1 and 7 more')
    """
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
