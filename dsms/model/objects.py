"""The objects of a catalog: frozen documents from which plans are derived and by which executors run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar, Literal

import msgspec
import pyarrow as pa

from connectors.kafka.names import dead_letter_topic
from operators.core.masking import masked_urls
from operators.expressions.rendering import simple_type

#: The name of a record format, as in `connectors.kafka.record_formats`.
Format = str
DEFAULT_IDLE_MS = 5_000
DEFAULT_AHEAD_MS = 86_400_000
DEFAULT_DEADLINE_MS = 5_000


#: Offsets by source id and partition.
FirstOffsets = dict[str, dict[int, int]]
#: For each tree of inner joins of a plan, from the top, the places of its inputs in the order in which they are joined.
JoinOrders = tuple[tuple[int, ...], ...]


class Column(msgspec.Struct, frozen=True):
    """A column by name, SQL type and nullability."""

    name: str
    type: str
    nullable: bool = True


class Constraint(msgspec.Struct, frozen=True):
    """A promise about the records of a source.

    "ordered": in each partition a value of `column` is at most `k` below the greatest before it. `k` is in ms for
    times, else in the column's own unit; None promises nothing, but the largest such difference is measured.
    "clustered": records with the same value are at most `k` instants apart. "references": each record has a partner in
    the source `other`, whose column `theirs` has its value, at most `k` instants earlier.
    """

    column: str
    k: int | None
    kind: Literal["ordered", "clustered", "references"] = "ordered"
    other: str | None = None
    theirs: str | None = None

    @property
    def sql(self) -> str:
        """The constraint as SQL text."""
        bound = "" if self.k is None else f" WITHIN {self.k}"
        if self.kind == "references":
            return f"{self.column} REFERENCES {self.other} ({self.theirs}){bound}"
        return f"{self.kind.upper()} BY {self.column}{bound}"


class Source(msgspec.Struct, frozen=True, tag="source", kw_only=True):
    """A topic of raw or tagged records.

    `timestamp` names the column that holds the instant; None is the `dsms-ts` header, else the record's timestamp (ms).
    `tagged` is "header" (`dsms-op`), "none", or the name of the column that holds the operation.
    `idle_ms` is how long a silent partition holds back the frontier; None: forever.
    """

    name: str
    id: str
    sql: str
    columns: tuple[Column, ...]
    topic: str
    format: Format = "json"
    timestamp: str | None = None
    #: Whether instants are raised to the latest one of their partition, so that no record is late.
    latent: bool = False
    #: The column that holds the instant of arrival (ESL's internal timestamps); records do not carry it.
    arrival: str | None = None
    #: Whether its topic holds the dead letters of another source, whose late records are its records.
    late_of: str | None = None
    #: The type of the timestamp column if it is not declared and therefore not part of the row.
    timestamp_type: str = "BIGINT"
    tagged: str = "header"
    slack: int = 0
    idle_ms: int | None = DEFAULT_IDLE_MS
    #: By how much an instant may be ahead of its record's own timestamp; None: by anything.
    ahead_ms: int | None = None
    registry: str | None = None
    partitions: int = 1
    #: The first offset of each partition when the source was registered; a partition added later starts at 0.
    start: dict[int, int] = {}
    #: Kafka's id of the topic when the source was registered; None: not known. A topic made anew has another one.
    topic_id: str | None = None
    #: The cluster whose mark every record of the log of a table has; None: records count without one.
    marked_by: str | None = None
    #: The partitions that were added to the topic later, with the instants from which they count.
    joined: dict[int, int] = {}
    #: The version of the catalog from which on nothing of it is read, because partitions are being added.
    held: int | None = None
    #: The records that statements have skipped, by partition: dead letters, whatever they hold.
    skipped: dict[int, tuple[int, ...]] = {}
    #: The version of the catalog from which on nothing of it is read, because a record is being skipped.
    skipping: int | None = None
    #: Whether it is the log of a table, which only the system writes, with its own watermarks.
    table: bool = False
    #: Orders records of the same instant across sources; unique in a catalog.
    number: int = 0
    #: The fragment that writes its dead letters, or the fragments that do, each for its share of the partitions.
    home: str = "0"
    homes: tuple[str, ...] = ()
    #: Promises about its records; records that break one are refused.
    constraints: tuple[Constraint, ...] = ()
    #: The topic of its dead letters; None is that of its name.
    letters: str | None = None
    #: The partitions that a part of a query reads; None: all. Only plans have it.
    only: tuple[int, ...] | None = None

    #: Fields that stored names were made without: they take no part in a fingerprint while they are None.
    added_later: ClassVar[frozenset[str]] = frozenset({"letters", "arrival", "late_of", "only", "ahead_ms"})

    @property
    def places(self) -> Sequence[int]:
        """The partitions that are read."""
        return range(self.partitions) if self.only is None else self.only

    @property
    def writers(self) -> tuple[str, ...]:
        """The fragments that write its dead letters."""
        return self.homes or (self.home,)

    def home_of(self, partition: int) -> str:
        """The fragment that writes the dead letters of a partition."""
        return self.writers[partition % len(self.writers)]

    @property
    def dead_letters(self) -> str:
        """The topic of its dead letters."""
        return self.letters or dead_letter_topic(self.name)

    @property
    def schema(self) -> pa.Schema:
        """The declared columns as an Arrow schema."""
        return _schema(self.columns)

    @property
    def ordered(self) -> tuple[Constraint, ...]:
        """The promises on the order within a partition, which each partition can check by itself."""
        return tuple(constraint for constraint in self.constraints if constraint.kind == "ordered")

    @property
    def record(self) -> pa.Schema:
        """The columns of a record: the declared ones and the timestamp column."""
        if self.timestamp is None or self.timestamp in self.schema.names:
            return self.schema
        return _schema((*self.columns, Column(self.timestamp, self.timestamp_type)))


@lru_cache(maxsize=1024)
def _schema(columns: tuple[Column, ...]) -> pa.Schema:
    return pa.schema([pa.field(c.name, _arrow(c.type), c.nullable) for c in columns])


def _arrow(text: str) -> pa.DataType:
    """The type of a column. Simple names are resolved without the SQL parser, which most processes that run plans never
    load."""
    if (simple := simple_type(text)) is not None:
        return simple
    from dsms.model.types import parse_type

    return parse_type(text)


class Stream(msgspec.Struct, frozen=True, tag="stream", kw_only=True):
    """A tagged stream over a source; without keys it is append-only."""

    name: str
    id: str
    sql: str
    source: str
    keys: tuple[str, ...]
    #: Whether it was declared with its columns, as PIPES and ESL do: a SELECT over it is continuous.
    declared: bool = False


#: The column that numbers the rows of a table without a primary key: it is their key, and no part of `*`.
ROW_NUMBER = "_row"


class Table(msgspec.Struct, frozen=True, tag="table", kw_only=True):
    """A keyed relation, changed by INSERT, UPDATE, DELETE and loads, or by a continuous INSERT alone, and stored as the
    changelog `source`."""

    name: str
    id: str
    sql: str
    source: Source
    keys: tuple[str, ...]
    #: The query whose results are its log; None: statements write it.
    filled_by: str | None = None
    #: The text of the defaults by column, for rows that have no value for it.
    defaults: dict[str, str] = {}
    #: The text of what holds for every row that a statement writes (TRUE or NULL), by its name.
    checks: dict[str, str] = {}

    @property
    def topic(self) -> str:
        """The topic of the log."""
        return self.source.topic

    @property
    def schema(self) -> pa.Schema:
        """The declared columns as an Arrow schema."""
        return self.source.schema

    @property
    def is_bag(self) -> bool:
        """Whether it has no primary key: equal rows may occur several times."""
        return self.keys == (ROW_NUMBER,)

    @property
    def column_names(self) -> list[str]:
        """The names of the columns that were declared."""
        return [name for name in self.schema.names if not (self.is_bag and name == ROW_NUMBER)]

    @property
    def key_schema(self) -> pa.Schema:
        """The columns of the primary key, in its order."""
        return pa.schema([self.schema.field(name) for name in self.keys])


class Query(msgspec.Struct, frozen=True, tag="query", kw_only=True):
    """A continuous query with a result topic; `kind` is "view" if other queries may read it by name."""

    name: str
    id: str
    sql: str
    kind: Literal["view", "query"]
    select: str
    topic: str
    #: Kafka's id of the topic when the query was created; None: not known. A topic made anew has another one.
    topic_id: str | None = None
    #: The cluster whose mark every record of the topic has; None: records count without one.
    marked_by: str | None = None
    format: Format = "json"
    partitions: int = 1
    #: Ids in the schema registry of the record key and value (Avro only).
    key_schema_id: int | None = None
    value_schema_id: int | None = None
    #: What the result topic carries: changes, the whole relation, or one of CQL's streams of it.
    output: Literal["streamed", "complete", "istream", "dstream", "rstream"] = "streamed"
    #: Period and residues of the points of a view over the clock, which no lane runs.
    periodic: tuple[int, tuple[int, ...]] | None = None
    #: Whether CREATE STREAM made it, as PIPES and ESL do: a SELECT over it is continuous.
    stream: bool = False
    #: Whether it may share operators with other queries; otherwise all its operators and state are its own.
    shared: bool = True
    #: The family of queries that differ only in constants, this query's constants, and whether it runs as a member.
    family: str | None = None
    constants: str | None = None
    grouped: bool = False
    #: The fragment that runs it, and the ids of the sources that it reads.
    fragment: str = "0"
    #: The fragments that run it together, each a share of its keys; empty: one fragment runs all of it.
    shares: tuple[str, ...] = ()
    #: The version of the catalog in which its fragments were last changed; 0: never.
    divided: int = 0
    #: Whether it is given to more fragments when it falls behind.
    fragments_by_load: bool = False
    reads: tuple[str, ...] = ()
    #: For view matching: the marks by which others find this query, and the queries it is answered from, as they were
    #: then.
    marks: tuple[str, ...] = ()
    over: tuple[Former, ...] = ()
    #: Its share of the executor when not all queries can run at once.
    weight: float = 1.0
    #: The most bytes of its unshared state in Redis; None: no limit.
    state_memory: int | None = None
    #: Whether it publishes nothing until it is resumed (`paused`), or until its replacement takes over (`halted`).
    paused: bool = False
    halted: bool = False
    #: Records of its sources before this instant are ignored.
    start: int | None = None
    #: By source id and partition, the first offset that it reads, where earlier records were gone when it was
    #: registered.
    first_offsets: FirstOffsets = {}
    #: The instant at which it replaced another query, which published everything before.
    since: int | None = None
    #: The largest allowed relative error of its results; None: they are exact.
    max_error: float | None = None
    #: How far it may lag behind its sources before input is shed, in milliseconds.
    deadline: int | None = None
    #: Whether its results have the columns `_error` and `_confidence`.
    error_columns: bool = False
    #: The condition that a record must satisfy to be shed.
    shed_where: str | None = None
    #: The most memory of its state, in bytes, within which the sizes of its windows are chosen, or its sketches.
    memory: int | None = None
    #: The error of its sketches, which `memory` and `max_error` together ask for; None: its operators keep all.
    sketch_error: float | None = None
    #: The query that it replaced, while still needed; `lasting`: as long as this query exists.
    former: Former | None = None
    lasting: bool = False
    #: The id of the table whose log its results are: a continuous INSERT.
    fills: str | None = None
    #: The order in which the inputs of each of its join trees are joined; () is the one that follows from its text.
    join_orders: JoinOrders = ()
    #: The orders that it is changing to, while their state is being built beside the old one; None: it is not changing.
    next_join_orders: JoinOrders | None = None
    #: Whether measured statistics may change the orders.
    orders_by_statistics: bool = True
    #: The name of the token that created it; empty where the coordinator knows no tokens.
    owner: str = ""
    #: Whether a selected field of a struct gives its name to the column; in older queries the column has a number.
    fields_named: bool = False
    #: Whether equal tuples of streams are duplicates in a UNION only if their timestamps are equal, too; in older
    #: queries they are whenever they come.
    streams_united: bool = False

    @property
    def fragments(self) -> tuple[str, ...]:
        """The fragments that run it."""
        return self.shares or (self.fragment,)

    @property
    def sheddable(self) -> bool:
        """Whether its input may be shed."""
        return self.max_error is not None and self.sketch_error is None

    @property
    def sized(self) -> bool:
        """Whether the sizes of its windows are chosen while it runs."""
        return self.memory is not None and self.sketch_error is None

    @property
    def adjustable(self) -> bool:
        """Whether something of it is decided while it runs."""
        return self.sheddable or self.sized

    @property
    def streams(self) -> bool:
        """Whether the result is one of CQL's streams, which never retract."""
        return self.output not in ("streamed", "complete")

    @property
    def stopped(self) -> bool:
        """Whether it makes no progress, because it is paused or halted."""
        return self.paused or self.halted


class Former(msgspec.Struct, frozen=True):
    """A former version of a query: its id, its text, and the versions of all objects that it read."""

    id: str
    select: str
    start: int | None
    objects: tuple[Object, ...]
    #: The queries from which it was answered.
    over: tuple[Former, ...] = ()
    #: Whether its input could be shed, and whether its results had error columns.
    sheddable: bool = False
    error_columns: bool = False
    shed_where: str | None = None
    first_offsets: FirstOffsets = {}
    #: The most memory of its state, within which the sizes of its windows were chosen.
    memory: int | None = None
    #: The error of its sketches.
    sketch_error: float | None = None
    fields_named: bool = False
    streams_united: bool = False


class AggregatePart(msgspec.Struct, frozen=True):
    """A definition of an aggregate: as it was written, and the number of the statement that made it."""

    number: int
    sql: str
    window: bool = False
    algebraic: bool = False
    python: bool = False


class Aggregate(msgspec.Struct, frozen=True, tag="aggregate", kw_only=True):
    """An aggregate that users wrote. Its name ends with brackets, as in `avg()`, so that relations may have the same.

    A base and a WINDOW definition are two parts of it. Of the parts of one kind the last is the current one; those
    before it remain as long as a query that is older than it uses the aggregate.
    """

    name: str
    id: str
    sql: str
    parts: tuple[AggregatePart, ...]

    def part(self, *, window: bool, before: int | None = None) -> AggregatePart | None:
        """The last definition of a kind that is older than the object of number `before`; None if there is none."""
        known = [part for part in self.parts if part.window == window and (before is None or part.number < before)]
        return known[-1] if known else None


class FunctionVersion(msgspec.Struct, frozen=True):
    """A version of a function: as it was written, and the number of the statement that made it."""

    number: int
    sql: str


class Function(msgspec.Struct, frozen=True, tag="function", kw_only=True):
    """A scalar function that users wrote in Python. Its name ends with brackets, as that of an aggregate. Versions
    before the last remain as long as a query that is older than the last uses the function."""

    name: str
    id: str
    sql: str
    versions: tuple[FunctionVersion, ...]


Object = Source | Stream | Table | Query | Aggregate | Function


def number_of(id: str) -> int:
    """The number of an object, by which objects are ordered in time.

    >>> number_of("o12")
    12
    """
    return int(id[1:])


def last_change(item: Object) -> int:
    """The number of the last definition of an aggregate or function; 0 for any other object."""
    match item:
        case Aggregate(parts=definitions) | Function(versions=definitions):
            return max(definition.number for definition in definitions)
    return 0


def kind_of(item: Object) -> str:
    """The SQL word for the kind of an object, such as "stream" or "view"."""
    return item.kind if isinstance(item, Query) else type(item).__name__.lower()


def shown_sql(item: Object) -> str:
    """The statement that created the object, as it was written. Versions before secrets by reference kept the password
    of a source's registry in it, which is left out."""
    return masked_urls(item.sql) if isinstance(item, Source | Stream) else item.sql
