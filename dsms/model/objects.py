"""What the catalog holds: frozen documents that plan and executors are functions of."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import msgspec
import pyarrow as pa

from operators.expressions.rendering import simple_type

Format = Literal["json", "avro"]
DEFAULT_IDLE_MS = 5_000
DEFAULT_DEADLINE_MS = 5_000


class Column(msgspec.Struct, frozen=True):
    """A column by name, SQL type and nullability."""

    name: str
    type: str
    nullable: bool = True


class Constraint(msgspec.Struct, frozen=True):
    """A promise about the records of a source.

    "ordered": in each partition a value of `column` is never more than `k` below the greatest before it. `k` is in ms
    for times, else in the column's own unit; None promises nothing: by how much values are below is watched.
    "clustered": the instants of records with one value are never more than `k` apart. "references": a record has a
    partner, with its value in the column `theirs` of the source `other`, at most `k` before it.
    """

    column: str
    k: int | None
    kind: Literal["ordered", "clustered", "references"] = "ordered"
    other: str | None = None
    theirs: str | None = None

    @property
    def sql(self) -> str:
        """As it is written."""
        bound = "" if self.k is None else f" WITHIN {self.k}"
        if self.kind == "references":
            return f"{self.column} REFERENCES {self.other} ({self.theirs}){bound}"
        return f"{self.kind.upper()} BY {self.column}{bound}"


class Source(msgspec.Struct, frozen=True, tag="source", kw_only=True):
    """A topic of raw or tagged records.

    `timestamp` names the column that holds the instant; None is the `dsms-ts` header, else the record's timestamp (ms).
    `tagged` is "header" (`dsms-op`), "none", or the name of the column that holds the operation.
    `idle_ms` is how long a silent partition holds the frontier; None is for ever.
    """

    name: str
    id: str
    sql: str
    columns: tuple[Column, ...]
    topic: str
    format: Format = "json"
    timestamp: str | None = None
    #: Whether instants are raised to what their partition has reached, so that no record is late.
    latent: bool = False
    #: The type of that column where it is not declared, and so no part of the row.
    timestamp_type: str = "BIGINT"
    tagged: str = "header"
    slack: int = 0
    idle_ms: int | None = DEFAULT_IDLE_MS
    registry: str | None = None
    partitions: int = 1
    #: The first offset of each partition when the source was registered; a partition added later starts at 0.
    start: dict[int, int] = {}
    #: Whether it is the log of a table: only the system writes it, and promises how far it has come.
    table: bool = False
    #: Its place in the order of records of one instant, different for every source of a catalog.
    number: int = 0
    #: The fragment that writes its dead letters.
    home: str = "0"
    #: What is promised of it; records that break a promise are refused.
    constraints: tuple[Constraint, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        """The declared columns as an Arrow schema."""
        return _schema(self.columns)

    @property
    def ordered(self) -> tuple[Constraint, ...]:
        """What is promised of the order in each partition: a record alone shows whether it keeps that."""
        return tuple(constraint for constraint in self.constraints if constraint.kind == "ordered")

    @property
    def record(self) -> pa.Schema:
        """The columns of a record: the declared ones, and the one of the instant."""
        if self.timestamp is None or self.timestamp in self.schema.names:
            return self.schema
        return _schema((*self.columns, Column(self.timestamp, self.timestamp_type)))


@lru_cache(maxsize=1024)
def _schema(columns: tuple[Column, ...]) -> pa.Schema:
    return pa.schema([pa.field(c.name, _arrow(c.type), c.nullable) for c in columns])


def _arrow(text: str) -> pa.DataType:
    """The type of a column. A simple name needs no parser of SQL, and most processes that run plans load none."""
    if (simple := simple_type(text)) is not None:
        return simple
    from dsms.model.types import parse_type

    return parse_type(text)


class Stream(msgspec.Struct, frozen=True, tag="stream", kw_only=True):
    """A tagged stream over a source; no keys means an append-only one."""

    name: str
    id: str
    sql: str
    source: str
    keys: tuple[str, ...]


class Table(msgspec.Struct, frozen=True, tag="table", kw_only=True):
    """A keyed relation that INSERT, UPDATE, DELETE and loads change: the log of its changes, read as a keyed stream."""

    name: str
    id: str
    sql: str
    source: Source
    keys: tuple[str, ...]

    @property
    def topic(self) -> str:
        """The topic of the log."""
        return self.source.topic

    @property
    def schema(self) -> pa.Schema:
        """The declared columns as an Arrow schema."""
        return self.source.schema

    @property
    def key_schema(self) -> pa.Schema:
        """The columns of the primary key, in its order."""
        return pa.schema([self.schema.field(name) for name in self.keys])


class Query(msgspec.Struct, frozen=True, tag="query", kw_only=True):
    """A continuous query with a result topic; `kind` is "view" where others may build on its name."""

    name: str
    id: str
    sql: str
    kind: Literal["view", "query"]
    select: str
    topic: str
    format: Format = "json"
    partitions: int = 1
    #: Ids in the schema registry of the record key and value (Avro only).
    key_schema_id: int | None = None
    value_schema_id: int | None = None
    #: What the result topic carries: changes, the whole relation, or one of CQL's streams of it.
    output: Literal["streamed", "complete", "istream", "dstream", "rstream"] = "streamed"
    #: Period and residues of the points of a view over the clock: it is known in advance, so no lane runs it.
    periodic: tuple[int, tuple[int, ...]] | None = None
    #: Whether it may run together with others; else it reads its sources for itself, and has all state for itself.
    shared: bool = True
    #: The family of queries that differ in constants alone, this one's constants, and whether it runs as a member.
    family: str | None = None
    constants: str | None = None
    grouped: bool = False
    #: The fragment that runs it, and the ids of the sources that it reads.
    fragment: str = "0"
    reads: tuple[str, ...] = ()
    #: What others could be answered over it by, and the queries it is answered over: whatever becomes of these.
    marks: tuple[str, ...] = ()
    over: tuple[Former, ...] = ()
    #: Its share where not all can run at once.
    weight: float = 1.0
    #: How many bytes of the state that it shares with nobody may lie in Redis; None for all.
    state_memory: int | None = None
    #: Whether it publishes nothing until it is resumed, or until what replaces it is there.
    paused: bool = False
    halted: bool = False
    #: The least instant of the elements that it reads of its sources.
    start: int | None = None
    #: It took the place of another query at this instant: what is below was published by that.
    since: int | None = None
    #: How large the relative error of its results may be; None: nothing of its input may be left out.
    max_error: float | None = None
    #: How far it may lag behind its sources before input is left out, in milliseconds.
    deadline: int | None = None
    #: Whether its results have the columns `_error` and `_confidence`.
    error_columns: bool = False
    #: The condition without which no record may be left out.
    shed_where: str | None = None
    #: What it was before, as long as that is needed; `lasting` where that is as long as the query.
    former: Former | None = None
    lasting: bool = False

    @property
    def sheddable(self) -> bool:
        """Whether some of its input may be left out."""
        return self.max_error is not None

    @property
    def streams(self) -> bool:
        """Whether the result is one of CQL's streams: nothing is taken back of it."""
        return self.output not in ("streamed", "complete")

    @property
    def still(self) -> bool:
        """Whether it stays where it is."""
        return self.paused or self.halted


class Former(msgspec.Struct, frozen=True):
    """A query as it was: its id, its text, and all that it read as that was."""

    id: str
    select: str
    start: int | None
    objects: tuple[Object, ...]
    #: What it was answered over.
    over: tuple[Former, ...] = ()
    #: Whether its input could be shed, and its results had the columns of errors.
    sheddable: bool = False
    error_columns: bool = False
    shed_where: str | None = None


Object = Source | Stream | Table | Query


def kind_of(item: Object) -> str:
    """The word that SQL uses for an object."""
    return item.kind if isinstance(item, Query) else type(item).__name__.lower()
