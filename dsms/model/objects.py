"""The objects of a catalog, as frozen documents. Executors derive from them what to run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Annotated, ClassVar, Literal, NamedTuple

import msgspec
import pyarrow as pa

from dsms.model.dead_letters import dead_letter_topic
from dsms.model.declared_columns import Column, Constraint
from dsms.model.field_role import FieldRole
from dsms.model.shared_links import SharedLink
from dsms.model.subplans import SharedSubplan, subplans_below
from dsms.model.user_defined import Aggregate, Function
from operators.core.masking import masked_urls
from operators.expressions.rendering import simple_type

#: The name of a record format, as in `connectors.formats.record_formats`.
Format = str
DEFAULT_IDLE_MS = 5_000
DEFAULT_AHEAD_MS = 86_400_000
DEFAULT_DEADLINE_MS = 5_000


#: Offsets by source id and partition.
FirstOffsets = dict[str, dict[int, int]]
#: For each tree of inner joins of a plan, from the top: the numbers of its inputs in the order in which they are
#: joined.
JoinOrders = tuple[tuple[int, ...], ...]


class Registered(msgspec.Struct, frozen=True):
    """What renaming has changed in a source, as it was registered. Plans and stored state are named by it."""

    name: str
    sql: str
    constraints: tuple[Constraint, ...] = ()
    own_dead_letter_topic: str | None = None


class Source(msgspec.Struct, frozen=True, tag="source", kw_only=True):
    """A topic of raw or tagged records.

    `timestamp` names the column that holds the instant. None means the `dsms-ts` header or, without it, the record's
    own timestamp (ms).
    `tagged` says where the operation of a record is: in "header" (`dsms-op`), in the column of this name, or "none".
    `idle_ms` is the time for which a partition without records holds back the frontier; None means forever.
    """

    name: str
    id: str
    sql: str
    columns: tuple[Column, ...]
    topic: str
    format: Format = "json"
    timestamp: str | None = None
    #: Whether an instant below the greatest one of its partition is raised to that one; then no record is late.
    latent: bool = False
    #: The column with the instant of arrival (ESL's internal timestamps), which records do not contain.
    arrival: str | None = None
    #: If the records of this source are the late records of another source: the name of the other one, whose
    #: dead-letter topic is the topic of this one.
    late_of: str | None = None
    #: The type of the timestamp column if that is not a declared column, and so not part of the row.
    timestamp_type: str = "BIGINT"
    tagged: str = "header"
    slack: int = 0
    idle_ms: int | None = DEFAULT_IDLE_MS
    #: The most ms by which an instant may be ahead of its record's own timestamp; None: no limit.
    ahead_ms: int | None = None
    registry: str | None = None
    partitions: int = 1
    #: The first offset of each partition when the source was registered; a partition added later starts at 0.
    start: dict[int, int] = {}
    #: Kafka's id of the topic when the source was registered; None: not known. A re-created topic has a different id.
    topic_id: str | None = None
    #: For the log of a table: the cluster that each record must name as its writer; None: records need not name a
    #: writer.
    marked_by: str | None = None
    #: The partitions that were added to the topic later, each with the instant that its frontier starts at.
    added_partitions: dict[int, int] = msgspec.field(default_factory=dict, name="joined")
    #: The version of the catalog since which reading is suspended because partitions are being added; None: not
    #: suspended.
    adding_partitions_since: int | None = msgspec.field(default=None, name="held")
    #: The offsets named by SKIP RECORD, by partition. Their records become dead letters, with any content.
    skipped: dict[int, tuple[int, ...]] = {}
    #: The version of the catalog since which reading is suspended because a record is being skipped; None: not
    #: suspended.
    skipping: int | None = None
    #: Whether it is the log of a table, which only the system writes, with its own watermarks.
    table: bool = False
    #: Its number, unique in the catalog, by which records of several sources with the same instant are ordered.
    number: int = 0
    #: The fragment that writes its dead letters. If several fragments do, each for some partitions, they are in
    #: `homes`.
    home: str = "0"
    homes: tuple[str, ...] = ()
    #: Promises about its records; records that break one are refused.
    constraints: tuple[Constraint, ...] = ()
    #: The topic of its dead letters; None: the one derived from its name.
    own_dead_letter_topic: str | None = msgspec.field(default=None, name="letters")
    #: In plans only: the partitions that a part of a query reads; None: all.
    only: tuple[int, ...] | None = None
    #: What it was before it, or a source that it references, was first renamed; None: nothing was renamed.
    registered: Registered | None = None
    #: The version before its columns were last changed, while queries that are older than the change read a version
    #: before it. Each version is a source of its own over the same topic, with its own id and number.
    earlier: Source | None = None
    #: The ids of all versions before this one, also of those that no query reads any more, oldest first.
    earlier_ids: tuple[str, ...] = ()
    #: For the log of a table: the columns that were dropped. Rows written before still have values for them.
    dropped: tuple[str, ...] = ()

    #: Fields that are newer than stored fingerprints; fingerprints leave them out while they are None.
    added_later: ClassVar[frozenset[str]] = frozenset(
        {"own_dead_letter_topic", "arrival", "late_of", "only", "ahead_ms"}
    )

    @property
    def as_registered(self) -> Source:
        """The source with the names that it had when it was registered."""
        return self if self.registered is None else self._with_names(self.registered, None)

    @property
    def versions(self) -> tuple[Source, ...]:
        """The versions that queries read and the current one, oldest first, each without those before it."""
        alone = self if self.earlier is None else msgspec.structs.replace(self, earlier=None)
        return (alone,) if self.earlier is None else (*self.earlier.versions, alone)

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of all versions that there ever were, oldest first."""
        return (*self.earlier_ids, self.id)

    def seen_by(self, number: int) -> Source:
        """The version that an object with this number reads: the last one that is older than the object."""
        version = self
        while version.earlier is not None and number_of(version.id) > number:
            version = version.earlier
        return version

    def with_version(self, version: Source) -> Source:
        """The source with one of its versions replaced by a later state of the same version."""
        if version.id == self.id or self.earlier is None:
            return msgspec.structs.replace(version, earlier=self.earlier)
        return msgspec.structs.replace(self, earlier=self.earlier.with_version(version))

    def renamed(self, **names: object) -> Source:
        """The source, and its earlier versions, with other values of fields of `Registered`. What it was at first is
        kept. A new text is only that of the current version."""
        after = msgspec.structs.replace(self, **names)
        older = {name: value for name, value in names.items() if name != "sql"}
        earlier = None if self.earlier is None else self.earlier.renamed(**older)
        return msgspec.structs.replace(after, registered=self.registered or _names_of(self), earlier=earlier)

    def named_like(self, other: Source) -> Source:
        """The source with the names that it has as `other`, another version of it."""
        return self._with_names(_names_of(other), other.registered)

    def _with_names(self, names: Registered, registered: Registered | None) -> Source:
        return msgspec.structs.replace(self, **msgspec.structs.asdict(names), registered=registered)

    @property
    def partitions_read(self) -> Sequence[int]:
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
    def dead_letter_topic(self) -> str:
        """The topic of its dead letters."""
        return self.own_dead_letter_topic or dead_letter_topic(self.name)

    @property
    def schema(self) -> pa.Schema:
        """The declared columns as an Arrow schema."""
        return _schema(self.columns)

    @property
    def ordered(self) -> tuple[Constraint, ...]:
        """The promises about the order within a partition, which can be checked for each partition on its own."""
        return tuple(constraint for constraint in self.constraints if constraint.kind == "ordered")

    @property
    def record(self) -> pa.Schema:
        """The columns of a record: the declared ones and the timestamp column."""
        if self.timestamp is None or self.timestamp in self.schema.names:
            return self.schema
        return _schema((*self.columns, Column(self.timestamp, self.timestamp_type)))


def _names_of(source: Source) -> Registered:
    return Registered(source.name, source.sql, source.constraints, source.own_dead_letter_topic)


@lru_cache(maxsize=1024)
def _schema(columns: tuple[Column, ...]) -> pa.Schema:
    return pa.schema([pa.field(c.name, _arrow(c.type), c.nullable) for c in columns])


def _arrow(text: str) -> pa.DataType:
    """The type of a column. Simple names need no SQL parser, which most processes that run plans never load."""
    if (simple := simple_type(text)) is not None:
        return simple
    from dsms.model.types import parse_type

    return parse_type(text)


class Stream(msgspec.Struct, frozen=True, tag="stream", kw_only=True):
    """A tagged stream over a source; without keys it is append-only. A `bag` has all columns as `keys`, by which its
    deletions find their rows, although several rows may be equal."""

    name: str
    id: str
    sql: str
    source: str
    keys: tuple[str, ...]
    #: Whether it was declared with its columns, as in PIPES and ESL: a SELECT over it is continuous.
    declared: bool = False
    bag: bool = False
    #: The name that it was created with, if it was renamed since. Plans and stored state are named by it.
    created_as: str = ""


#: The column that numbers the rows of a table without a primary key: it is the key, and not part of `*`.
ROW_NUMBER = "_row"


class Table(msgspec.Struct, frozen=True, tag="table", kw_only=True):
    """A keyed relation, stored as the changelog `source`. INSERT, UPDATE, DELETE and loads change it, or one continuous
    INSERT fills it.
    """

    name: str
    id: str
    sql: str
    source: Source
    keys: tuple[str, ...]
    #: The query whose result topic is the log of the table; None: statements write the table.
    filled_by: str | None = None
    #: The text of each default, by column, for rows without a value for the column.
    defaults: dict[str, str] = {}
    #: The text of each CHECK condition, by its name. A condition must be TRUE or NULL for every row that a statement
    #: writes.
    checks: dict[str, str] = {}

    @property
    def topic(self) -> str:
        """The topic of the log."""
        return self.source.topic

    def seen_by(self, number: int) -> Table:
        """The table with the columns that an object with this number reads."""
        log = self.source.seen_by(number)
        return self if log is self.source else msgspec.structs.replace(self, source=log)

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
        """The names of the declared columns."""
        return [name for name in self.schema.names if not (self.is_bag and name == ROW_NUMBER)]

    @property
    def key_schema(self) -> pa.Schema:
        """The columns of the primary key, in its order."""
        return pa.schema([self.schema.field(name) for name in self.keys])


#: Whether values that occur often ("desc") or rarely come first, and the name of the column.
ValuePreference = tuple[Literal["asc", "desc"], str]


class Query(msgspec.Struct, frozen=True, tag="query", kw_only=True):
    """A continuous query with a result topic; `kind` is "view" if other queries may read it by name. Each field states
    its role: what it is about, and what becomes of it when the query changes."""

    name: Annotated[str, FieldRole("declared")]
    id: Annotated[str, FieldRole("life", in_former=True)]
    sql: Annotated[str, FieldRole("declared")]
    kind: Annotated[Literal["view", "query"], FieldRole("declared")]
    select: Annotated[str, FieldRole("declared", compared=True, in_former=True)]
    topic: Annotated[str, FieldRole("declared", "fixed")]
    #: Kafka's id of the topic when the query was created; None: not known. A re-created topic has a different id.
    topic_id: Annotated[str | None, FieldRole("life", "carried")] = None
    #: The cluster whose mark each record of the topic must have; None: records without a mark are valid.
    marked_by: Annotated[str | None, FieldRole("life", "carried")] = None
    format: Annotated[Format, FieldRole("declared", "fixed")] = "json"
    partitions: Annotated[int, FieldRole("declared", "fixed")] = 1
    #: Ids in the schema registry of the record key and value (Avro only).
    key_schema_id: Annotated[int | None, FieldRole("life", "carried")] = None
    value_schema_id: Annotated[int | None, FieldRole("life", "carried")] = None
    #: The contents of the result topic: changes, the whole relation, or one of CQL's streams of it.
    output: Annotated[
        Literal["streamed", "complete", "istream", "dstream", "rstream"], FieldRole("declared", compared=True)
    ] = "streamed"
    #: Only for a view over the clock, which no lane runs: the period and the residues of its synchronisation points.
    periodic: Annotated[tuple[int, tuple[int, ...]] | None, FieldRole("declared")] = None
    #: Whether CREATE STREAM created it, as in PIPES and ESL: a SELECT over it is continuous.
    stream: Annotated[bool, FieldRole("declared")] = False
    #: Whether it may share operators with other queries; otherwise all its operators and state are its own.
    shared: Annotated[bool, FieldRole("declared", "carried", compared=True)] = True
    #: The family (queries that differ only in constants), this query's constants, and whether it runs as a member.
    family: Annotated[str | None, FieldRole("placement", "reset", reset_on_division=True)] = None
    constants: Annotated[str | None, FieldRole("placement", "reset", reset_on_division=True)] = None
    grouped: Annotated[bool, FieldRole("placement", "reset", reset_on_division=True)] = False
    #: The fragment that runs it.
    fragment: Annotated[str, FieldRole("placement", "carried")] = "0"
    #: The fragments that run it together, each for a shard of its keys; empty: one fragment runs all of it.
    shares: Annotated[tuple[str, ...], FieldRole("placement", reset_on_division=True)] = ()
    #: The version of the catalog in which its fragments were last changed; 0: never.
    divided_at_version: Annotated[int, FieldRole("placement")] = msgspec.field(default=0, name="divided")
    #: Whether more fragments are assigned to it when it falls behind.
    fragments_by_load: Annotated[bool, FieldRole("declared", "carried", compared=True)] = False
    #: The ids of the sources that it reads.
    reads: Annotated[tuple[str, ...], FieldRole("placement")] = ()
    #: For view matching: the digests by which new queries find this one as a candidate (`match_digests`), and the
    #: queries from whose rows this one is computed, as they were when it was created.
    match_digests: Annotated[tuple[str, ...], FieldRole("placement", "reset", reset_on_division=True)] = msgspec.field(
        default=(), name="marks"
    )
    over: Annotated[tuple[Former, ...], FieldRole("placement", "reset", reset_on_division=True, in_former=True)] = ()
    #: Its relative share of the executor's time when the executor cannot keep up with all queries.
    weight: Annotated[float, FieldRole("declared", "carried", compared=True)] = 1.0
    #: The limit for its unshared state in Redis, in bytes; None: no limit.
    state_memory: Annotated[int | None, FieldRole("declared", "carried", compared=True)] = None
    #: Whether it makes no progress until it is resumed (`paused`), or until its replacement takes over (`halted`).
    paused: Annotated[bool, FieldRole("life", "carried")] = False
    halted: Annotated[bool, FieldRole("life", "reset", reset_on_division=True)] = False
    #: Records of its sources before this instant are ignored.
    start: Annotated[int | None, FieldRole("declared", compared=True, in_former=True)] = None
    #: The first offset that it reads, by source id and partition, for partitions whose earlier records were already
    #: deleted when it was registered.
    first_offsets: Annotated[FirstOffsets, FieldRole("life", "carried", in_former=True)] = {}
    #: The instant at which it replaced another query, which published all changes before it.
    since: Annotated[int | None, FieldRole("life", "reset")] = None
    #: The largest allowed relative error of its results; None: they are exact.
    max_error: Annotated[float | None, FieldRole("quality", compared=True)] = None
    #: How far it may lag behind its sources before input is shed, in milliseconds.
    deadline: Annotated[int | None, FieldRole("quality", compared=True)] = None
    #: Whether its results have the columns `_error` and `_confidence`.
    error_columns: Annotated[bool, FieldRole("quality", compared=True, in_former=True)] = False
    #: The condition that a record must satisfy to be shed; None: any record may be shed.
    shed_where: Annotated[str | None, FieldRole("quality", compared=True, in_former=True)] = None
    #: A limit in bytes. Alone, it limits all state of the query: the sizes of its windows are chosen to fit. Together
    #: with `max_error`, it limits the sketches of each group.
    memory: Annotated[int | None, FieldRole("quality", compared=True)] = None
    #: The error of its sketches, if both `memory` and `max_error` are given; None: its operators keep all values.
    sketch_error: Annotated[float | None, FieldRole("quality", in_former=True)] = None
    #: The version that it replaced, while results still depend on it; if `lasting`, they do as long as this query
    #: exists.
    former: Annotated[Former | None, FieldRole("life", "reset")] = None
    lasting: Annotated[bool, FieldRole("life")] = False
    #: For a continuous INSERT: the id of the table whose log its result topic is.
    fills: Annotated[str | None, FieldRole("declared")] = None
    #: The order in which the inputs of each of its join trees are joined; (): the default for its text.
    join_orders: Annotated[JoinOrders, FieldRole("placement", reset_on_division=True)] = ()
    #: The orders that it is changing to while their state is built in a separate lane; None: it is not changing.
    next_join_orders: Annotated[JoinOrders | None, FieldRole("placement", reset_on_division=True)] = None
    #: Whether measured statistics may change the orders.
    orders_by_statistics: Annotated[bool, FieldRole("declared", "carried")] = True
    #: The name of the token that created it; empty if the coordinator has no tokens.
    owner: Annotated[str, FieldRole("life")] = ""
    #: Whether the column of a selected struct field has the name of the field; in older queries it has a number.
    fields_named: Annotated[bool, FieldRole("declared", in_former=True)] = False
    #: Whether equal tuples of streams are duplicates in a UNION only if their timestamps are equal, too; in older
    #: queries timestamps do not matter.
    streams_united: Annotated[bool, FieldRole("declared", in_former=True)] = False
    #: The ids of the versions that it has replaced, the last first: executors that were cut off may still publish them.
    earlier: Annotated[tuple[str, ...], FieldRole("life", "reset")] = ()
    #: The shared subplans that it reads through links: other fragments compute them, or did so before a move.
    links: Annotated[tuple[SharedSubplan, ...], FieldRole("placement", "reset", reset_on_division=True)] = ()
    #: If several fragments run it: the links between its shards, which other queries may share. (): its links are its
    #: own, because it was created by an earlier version, or its fragments were changed.
    shared_links: Annotated[tuple[SharedLink, ...], FieldRole("placement", "reset", reset_on_division=True)] = ()
    #: The digests of the parts of its plan with state that its own fragment computes, by which later queries find them.
    operators: Annotated[tuple[str, ...], FieldRole("placement", "reset", reset_on_division=True)] = ()
    #: The queries from whose rows it is going to be computed, while the state of that plan is built in a separate lane;
    #: None: this does not change. It never changes together with the orders of the joins.
    next_over: Annotated[tuple[Former, ...] | None, FieldRole("placement", "reset", reset_on_division=True)] = None
    #: The fragment that ran it before, and keeps its state until `fragment` has taken it over; None: there is none.
    former_fragment: Annotated[str | None, FieldRole("placement", "reset", reset_on_division=True)] = None
    #: Whether a statement has assigned it to its fragment, so that the load does not move it.
    pinned: Annotated[bool, FieldRole("declared", "carried")] = False
    #: The largest part of the input of each stream that may be left out; None: none, or `max_error` is the bound.
    max_loss: Annotated[float | None, FieldRole("quality", compared=True, in_former=True)] = None
    #: Which values of a column are kept first when its input is shed: the frequent or the rare ones; None: all alike.
    preference: Annotated[ValuePreference | None, FieldRole("quality", compared=True, in_former=True)] = None

    #: The name that it was created with, if it was renamed since; its dead letters have this name.
    created_as: Annotated[str, FieldRole("life", "carried")] = ""
    #: The number of the version that its text was given for: it reads the columns that sources and tables had then.
    #: None: this version.
    text_of: Annotated[int | None, FieldRole("life", in_former=True)] = None

    @property
    def text_given(self) -> int:
        """The number of the object that its text was given for."""
        return number_of(self.id) if self.text_of is None else self.text_of

    @property
    def first_name(self) -> str:
        """The name that it was created with."""
        return self.created_as or self.name

    @property
    def held_links(self) -> tuple[SharedSubplan | SharedLink, ...]:
        """The shared subplans, with those below them, and the shared links that exist as long as it does."""
        return (*subplans_below(self.links), *self.shared_links)

    @property
    def hints(self) -> PlanHints:
        """The hints from which its plan is derived."""
        return PlanHints(self.join_orders, self.over)

    @property
    def next_hints(self) -> PlanHints | None:
        """The hints of the plan that it is changing to; None if it is not changing."""
        if self.next_join_orders is not None:
            return PlanHints(self.next_join_orders, self.over)
        return None if self.next_over is None else PlanHints((), self.next_over)

    @property
    def next_plan_id(self) -> str | None:
        """The id of the plan that it is changing to. It contains the hints, so plans with different hints are
        different, and each begins on its own. None if the query is not changing."""
        return None if self.next_hints is None else f"{self.id}+{self.next_hints.text}"

    @property
    def fragments(self) -> tuple[str, ...]:
        """The fragments that run it."""
        return self.shares or (self.fragment,)

    @property
    def replaces_another(self) -> bool:
        """Whether it has taken over from another version, so that its results depend on what that one published."""
        return self.since is not None or self.former is not None

    @property
    def moved(self) -> bool:
        """Whether one fragment runs it that did not run it from its beginning."""
        return self.divided_at_version > 0 and not self.shares

    @property
    def needed_fragments(self) -> frozenset[str]:
        """The fragments that run it, and those that compute shared subplans for it."""
        return frozenset((*self.fragments, *(subplan.fragment for subplan in subplans_below(self.links))))

    @property
    def sheddable(self) -> bool:
        """Whether its input may be shed."""
        return self.max_loss is not None or (self.max_error is not None and self.sketch_error is None)

    @property
    def has_chosen_window_sizes(self) -> bool:
        """Whether the sizes of its windows are chosen while it runs."""
        return self.memory is not None and self.sketch_error is None

    @property
    def adjustable(self) -> bool:
        """Whether its shedding rates or window sizes are chosen while it runs."""
        return self.sheddable or self.has_chosen_window_sizes

    @property
    def may_share_parts(self) -> bool:
        """Whether it may share single parts of its plan with other queries: it has no settings that are chosen while it
        runs, and is no member of a family, whose queries share a plan as a whole."""
        return self.shared and not self.grouped and not self.adjustable

    @property
    def is_cql_stream(self) -> bool:
        """Whether the result is one of CQL's streams, which never retract."""
        return self.output not in ("streamed", "complete")

    @property
    def stopped(self) -> bool:
        """Whether it makes no progress, because it is paused or halted."""
        return self.paused or self.halted


class Former(msgspec.Struct, frozen=True):
    """An earlier version of a query: its id, its text, and all objects that it read, in their state at that time."""

    id: str
    select: str
    start: int | None
    objects: tuple[Object, ...]
    #: The queries from which it was computed.
    over: tuple[Former, ...] = ()
    #: Whether its input could be shed, and whether its results had error columns.
    sheddable: bool = False
    error_columns: bool = False
    shed_where: str | None = None
    first_offsets: FirstOffsets = {}
    #: The memory for its state, in bytes, within which the sizes of its windows were chosen.
    memory: int | None = None
    #: The error of its sketches.
    sketch_error: float | None = None
    fields_named: bool = False
    streams_united: bool = False
    #: In a hint: whether its uppermost operator with the rows of one of the other query's operators also gets that
    #: one's columns.
    merged: bool = False
    max_loss: float | None = None
    preference: ValuePreference | None = None
    text_of: int | None = None

    @property
    def text_given(self) -> int:
        """The number of the object that its text was given for."""
        return number_of(self.id) if self.text_of is None else self.text_of


class PlanHints(NamedTuple):
    """What determines a query's plan besides its text: the orders of its joins, and the queries from whose rows it is
    computed. They do not change its results."""

    join_orders: JoinOrders = ()
    over: tuple[Former, ...] = ()

    @property
    def text(self) -> str:
        """The hints as text; different hints have different texts.

        >>> PlanHints(((1, 0),)).text, PlanHints((), (Former("o3", "", None, (), (Former("o1", "", None, ()),)),)).text
        ('((1,0),)', '()over[o3[o1]]')
        """
        over = f"over[{_ids(self.over)}]" if self.over else ""
        return f"{self.join_orders}".replace(" ", "") + over


def _ids(formers: Iterable[Former]) -> str:
    parts = ((former.id, "+" * former.merged, f"[{_ids(former.over)}]" if former.over else "") for former in formers)
    return ",".join(map("".join, parts))


Object = Source | Stream | Table | Query | Aggregate | Function


def number_of(id: str) -> int:
    """The number of an object, which grows in the order of creation.

    >>> number_of("o12")
    12
    """
    return int(id[1:])


def last_change(item: Object) -> int:
    """The number of the last definition of an aggregate or function, or of the last change of the columns of a source
    or table; 0 if there was none, and for any other object."""
    match item:
        case Source(earlier_ids=earlier) if earlier:
            return number_of(item.id)
        case Table(source=log):
            return last_change(log)
        case Aggregate(parts=definitions) | Function(versions=definitions):
            return max(definition.number for definition in definitions)
    return 0


def kind_of(item: Object) -> str:
    """The SQL word for the kind of an object, such as "stream" or "view"."""
    return item.kind if isinstance(item, Query) else type(item).__name__.lower()


def shown_sql(item: Object) -> str:
    """The statement that created the object, without passwords: old versions of dsms, which had no references to
    secrets, stored the password of a source's schema registry in it.
    """
    return masked_urls(item.sql) if isinstance(item, Source | Stream) else item.sql
