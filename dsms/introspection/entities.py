"""What runs, as entities with attributes: STREAM's control tables (section 6.1)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

Kind = Literal["operators", "queues", "synopses", "constraints"]


class Operator(msgspec.Struct, frozen=True, kw_only=True):
    """A vertex of a lane, on all targets together. Totals count from the start of the fragment on its executor; rates,
    selectivity, cost and load are those of the last seconds."""

    id: str
    fragment: str
    lane: str
    #: The kind of operator; "Source" reads and decodes records.
    operator: str
    stage: int
    #: The queries that it is below, and the operators that feed it.
    queries: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    #: The key of the vertex: equal in every lane and fragment that computes the same.
    key: str = ""
    runs: int = 0
    rows_in: tuple[int, ...] = ()
    rows_out: int = 0
    busy_seconds: float = 0.0
    rows_in_per_second: float = 0.0
    rows_out_per_second: float = 0.0
    #: Busy seconds a second, of all cores together.
    load: float = 0.0
    #: Rows out a row in, and seconds a row in; None where none came.
    selectivity: float | None = None
    seconds_per_row: float | None = None
    state_rows: int = 0
    state_bytes: int = 0


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """What waits before a stage of a lane: before the reading, the records of a source partition that are not read yet
    (`source` and `partition`); before another stage, the rows that it has not worked on."""

    id: str
    fragment: str
    lane: str
    queries: tuple[str, ...]
    stage: int = 0
    source: str | None = None
    partition: int | None = None
    #: The next offset, and the end of the partition; None where that is not known.
    next_offset: int | None = None
    end_offset: int | None = None
    #: How many rows or records wait, and their bytes as far as these are known.
    rows: int | None = None
    bytes: int | None = None


class Synopsis(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an operator: its traces, and how they lie on the targets."""

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
    """How the records of a source that a lane has read keep what it promises of a column: of each partition, or of all
    where the promise is about them together."""

    id: str
    fragment: str
    lane: str
    queries: tuple[str, ...]
    source: str
    partition: int | None
    column: str
    #: The promise as it is written.
    promise: str
    #: What is promised; None: nothing is, the column is watched.
    k: int | None = None
    #: The largest k seen: by how much a value was below the greatest before it, refused ones included; else how far
    #: records were apart that were not refused.
    worst: int = 0
    #: How many records were refused for it.
    violations: int = 0


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What an executor tells of a fragment. `at` is the time in seconds since 1970."""

    executor: str
    fragment: str
    at: float
    operators: tuple[Operator, ...] = ()
    queues: tuple[Queue, ...] = ()
    synopses: tuple[Synopsis, ...] = ()
    constraints: tuple[Adherence, ...] = ()


Entity = Operator | Queue | Synopsis | Adherence


def load_by_fragment(reports: Iterable[Report]) -> dict[str, float]:
    """Busy seconds a second of all operators of each fragment."""
    return {report.fragment: sum(one.load for one in report.operators) for report in reports}


def entities(report: Report, kind: Kind) -> tuple[Entity, ...]:
    """The entities of a kind."""
    found: dict[Kind, tuple[Entity, ...]] = {
        "operators": report.operators, "queues": report.queues, "synopses": report.synopses,
        "constraints": report.constraints,
    }  # fmt: skip
    return found[kind]


def concerns(entity: Entity, query: str | None) -> bool:
    """Whether a query, by its name in any case, has to do with an entity; None: any query has."""
    return query is None or query.lower() in map(str.lower, entity.queries)


def listed(names: tuple[str, ...], most: int = 5) -> str:
    """A few names, and how many more.

    >>> listed(("a", "b")), listed(tuple(f"q{at}" for at in range(9)), 2)
    ('a, b', 'q0, q1 and 7 more')
    """
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
