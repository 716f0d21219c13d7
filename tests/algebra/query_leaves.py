"""Sources and their histories, and the leaves of queries: streams, their windows, and synchronised streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal

import duckdb
import pyarrow as pa
from hypothesis import strategies as st

from tests.algebra.query_parts import NOW, Column, Drawing, Kind, Relation
from tests.algebra.query_scalars import predicate
from tests.support import oracle
from tests.support.oracle import Advance, Event, Record, Row

#: An instant after all instants of a history; relations are compared up to it.
END = 12
FOREVER = 10**6
TYPES = {
    "k": "INTEGER", "n": "BIGINT", "s": "VARCHAR", "f": "DOUBLE", "b": "BOOLEAN", "d": "DOUBLE", "m": "DECIMAL(7, 2)",
    "y": "DATE", "h": "TIMESTAMP",
}  # fmt: skip
ARROW = {
    "k": pa.int32(), "n": pa.int64(), "s": pa.string(), "f": pa.float64(), "b": pa.bool_(), "d": pa.float64(),
    "m": pa.decimal128(7, 2), "y": pa.date32(), "h": pa.timestamp("us"),
}  # fmt: skip
KINDS: dict[str, Kind] = {
    "k": "int", "n": "int", "s": "str", "f": "float", "b": "bool", "d": "real", "m": "dec", "y": "date", "h": "time",
}  # fmt: skip
VALUES = {
    "k": st.integers(0, 2), "n": st.integers(-1, 3), "s": st.sampled_from(["a", "b", "", "ab"]),
    "f": st.sampled_from([0.5, -1.25, 2.0]), "b": st.booleans(), "d": st.sampled_from([0.1, 0.7, -0.3, 1 / 3, 1e3]),
    "m": st.sampled_from([Decimal("0.25"), Decimal("-1.50"), Decimal("3.00"), Decimal("12345.67")]),
    "y": st.sampled_from([date(2024, 4, 30), date(2024, 5, 1), date(2024, 5, 2), date(2024, 5, 4)]),
    "h": st.sampled_from(["2024-05-01", "2024-05-01T18:30", "2024-05-02T06:00"]).map(datetime.fromisoformat),
}  # fmt: skip
SHAPES = [("k", "n"), ("k", "n", "s"), ("n", "s"), ("k", "n", "f"), ("k", "n", "d"), ("k", "n", "s", "f", "b", "d")]
#: Shapes with DECIMAL, DATE and TIMESTAMP.
TYPED_SHAPES = [("k", "m"), ("k", "y", "h"), ("k", "n", "m", "y"), ("n", "h"), ("k", "n", "m", "y", "h")]
#: Columns that may be NULL.
NULLABLE = [(), ("n",), tuple(TYPES), ("n", "s", "b", "y")]
INSTANTS = st.integers(0, END - 2)
_NULLABLE_VALUES = {name: st.one_of(values, values, st.none()) for name, values in VALUES.items()}


@dataclass(frozen=True)
class Source:
    """A source with one stream over it, its log, and its slack."""

    number: int
    columns: tuple[str, ...]
    nullable: tuple[str, ...]
    keys: tuple[str, ...]
    slack: int
    events: tuple[Event, ...]

    @property
    def stream(self) -> str:
        """The name of the stream."""
        return f"S{self.number}"

    @property
    def sql(self) -> str:
        """The statements that declare the source and the stream."""
        columns = ", ".join(f"{c} {TYPES[c]}{'' if c in self.nullable else ' NOT NULL'}" for c in self.columns)
        source = f"REGISTER SOURCE T{self.number} ({columns}) FROM t{self.number} SLACK {self.slack}"
        return f"{source}; CREATE STREAM {self.stream} OVER T{self.number} KEY {', '.join(self.keys) or 'NULL'};"

    @property
    def pushed(self) -> list[Row | int]:
        """The log to push: records, and heartbeats as numbers."""
        return [_pushed(event) for event in self.events]

    def history(self) -> pa.Table:
        """The rows of the stream's relation, each with the instants between which it is valid."""
        accepted, _ = oracle.accept(self.events, self.slack)
        kinds = [pa.field(name, ARROW[name]) for name in self.columns]
        times = [pa.field(name, pa.int64()) for name in ("TS", "__from", "__to", "__seq")]
        return pa.Table.from_pylist(lives(accepted, self.keys), schema=pa.schema([*kinds, *times]))

    def leaf(self) -> Relation:
        """The stream as an item of FROM."""
        columns = tuple(Column(name, KINDS[name]) for name in self.columns)
        listed = ", ".join([*self.columns, "TS"])
        now = f"__from <= {NOW} AND {NOW} < __to"
        duck = f"(SELECT {listed} FROM H{self.number} WHERE {now})"
        return Relation(self.stream, duck, (*columns, Column("TS", "int")), not self.keys)


def _pushed(event: Event) -> Row | int:
    if isinstance(event, Advance):
        return event.ts
    assert isinstance(event, Record)
    return {**event.row, "ts": event.ts} | ({"op": "-"} if event.deletion else {})


def lives(accepted: Sequence[Record], keys: Sequence[str]) -> list[Row]:
    """The rows of R[S(T)] with their validity: a row of a keyed stream is valid until the next one of its key."""
    rows: list[Row] = []
    last: dict[tuple[object, ...], Row] = {}
    ordered = sorted(enumerate(accepted), key=lambda numbered: numbered[1].ts)
    for seq, record in ordered:
        row = {**record.row, "TS": record.ts, "__from": record.ts, "__to": FOREVER, "__seq": seq}
        if keys:
            key = tuple(record.row[name] for name in keys)
            last.pop(key, {})["__to"] = record.ts
            last[key] = row
        if not record.deletion:
            rows.append(row)
    return [row for row in rows if row["__from"] < row["__to"]]


@st.composite
def sources(draw: st.DrawFn, number: int, most: int, having: str = "") -> Source:
    """A source with at most `most` records and heartbeats, out of order within the slack and beyond it."""
    shapes = TYPED_SHAPES if having == "types" or draw(st.integers(0, 99)) >= 85 else SHAPES
    columns = draw(st.sampled_from(shapes))
    nullable = draw(st.sampled_from(NULLABLE))
    keys = draw(st.sampled_from([(), ("n",) if "k" not in columns else ("k",), ()]))
    keys = () if having in ("final", "union", "where") else keys
    row = st.tuples(*((_NULLABLE_VALUES if name in nullable else VALUES)[name] for name in columns))
    kinds = st.sampled_from(["+", "+", "+", "+", "-" if keys else "+", "promise"])
    events: list[Event] = []
    for ts, kind, values in draw(st.lists(st.tuples(INSTANTS, kinds, row), min_size=min(2, most), max_size=most)):
        named = dict(zip(columns, values, strict=True))
        if kind == "-":
            named = {name: named[name] for name in keys}
        events.append(Advance(ts // 2) if kind == "promise" else Record(ts, named, kind == "-"))
    slack = draw(st.sampled_from([END, END, 0, 2]))
    return Source(number, columns, nullable, keys, slack, tuple(events))


def load(database: duckdb.DuckDBPyConnection, registered: Sequence[Source]) -> None:
    """Loads the histories into tables of DuckDB."""
    for source in registered:
        database.register("arrived", source.history())
        database.execute(f"CREATE OR REPLACE TEMP TABLE H{source.number} AS SELECT * FROM arrived")


def leaf(g: Drawing) -> Relation:
    """A stream or a table, or a window of one."""
    leaf = g.pick(g.leaves)
    if "table" in g.due:
        g.due.remove("table")
        leaf = next(candidate for candidate in g.leaves if candidate.ours == "Tab")
    if "where" in g.due:
        g.due.remove("where")
        return where_inside(g, g.pick([candidate for candidate in g.leaves if candidate.stream]))
    return seen(g, leaf)


def seen(g: Drawing, leaf: Relation) -> Relation:
    """A leaf, one of its windows, or the leaf as of the last synchronisation point."""
    if g.clock is not None:
        slides = leaf.stream and g.clock[1] == 0 and g.chance(30)
        return range_window(g, leaf, g.clock[0]) if slides else synchronised(g, leaf)
    if g.chance(20):
        streams = [candidate.ours for candidate in g.leaves if candidate.stream]
        return at_events(leaf, g.pick(streams)) if streams and g.chance(25) else synchronised(g, leaf)
    if leaf.stream and g.chance(40):
        if g.chance(15):
            return where_inside(g, leaf)
        stream = filtered(g, leaf) if g.chance(25) else leaf
        return g.pick(WINDOWS)(g, stream)
    return leaf


def where_inside(g: Drawing, stream: Relation) -> Relation:
    """[… Where condition]: a window over the rows of a stream that satisfy a condition."""
    condition = predicate(g, [(column.name, column.kind) for column in stream.columns])
    if g.chance(60):  # a condition that is TRUE for some rows only
        whole = g.pick(stream.of("int")).name
        condition = g.pick([f"{whole} <> {g.number(0, 2)}", f"{whole} % 2 = {g.number(0, 1)}", f"{whole} > 1"])
    window = g.pick(WINDOWS)(g, replace(stream, duck=f"{stream.duck[:-1]} AND ({condition}))"))
    return replace(window, ours=f"{window.ours[:-1]} Where {condition}]")


def filtered(g: Drawing, stream: Relation) -> Relation:
    """A derived stream; windows over it are possible as over any stream."""
    condition = predicate(g, [(column.name, column.kind) for column in stream.columns])
    listed = ", ".join(column.name for column in stream.columns)
    ours = f"(SELECT {listed} FROM {stream.ours} WHERE {condition})"
    return Relation(ours, f"{stream.duck[:-1]} AND ({condition}))", stream.columns)


def at_events(relation: Relation, events: str) -> Relation:
    """R[Sync](S) whose points are the instants of another stream; empty before the first of them."""
    last = f"(SELECT max(TS) FROM H{events[1:]} WHERE TS <= {NOW})"
    return Relation(f"R[{events}]({relation.ours})", relation.duck.replace(NOW, last), relation.columns)


def range_window(g: Drawing, stream: Relation, every: int | None = None) -> Relation:
    """[Range T]: a row stays for T instants after its own; with Slide, as of the last multiple of the slide."""
    length, slide = g.number(0, 5), every or g.pick([1, 1, 2, 3])
    now = NOW if slide == 1 else f"({NOW} - ({NOW} + {slide}) % {slide})"
    end = "" if slide == 1 else f" Slide {slide}"
    duck = stream.duck.replace(NOW, now)
    duck = f"(SELECT * FROM {duck} WHERE TS >= {now} - {length})"
    window = f"[Range {length}{end}]"
    return Relation(f"{stream.ours} {'[Now]' if window == '[Range 0]' else window}", duck, stream.columns)


def row_window(g: Drawing, stream: Relation) -> Relation:
    """[Rows N Slide L]: the rows numbered m - N + 1 to m, where m is the last multiple of L up to the row count."""
    rows, slide = g.number(1, 4), g.pick([1, 1, 2, 3])
    end = "" if slide == 1 else f" Slide {slide}"
    return Relation(f"{stream.ours} [Rows {rows}{end}]", last_rows(stream, "", rows, slide), stream.columns)


def partitioned_rows(g: Drawing, stream: Relation) -> Relation:
    """[Partition By a Rows N]: the last rows of each partition."""
    rows, column = g.number(1, 3), g.pick(stream.columns[:-1]).name
    within = g.number(1, 4) if "(" not in stream.ours and g.chance(25) else None
    ours = f"{stream.ours} [Partition By {column} Rows {rows}{'' if within is None else f' Range {within}'}]"
    duck = last_rows(stream, f"PARTITION BY {column}", rows, 1)
    if within is not None:
        duck = f"(SELECT * FROM {duck} WHERE TS >= {NOW} - {within})"
    return Relation(ours, duck, stream.columns)


WINDOWS = [range_window, row_window, partitioned_rows]


def last_rows(stream: Relation, partition: str, rows: int, slide: int) -> str:
    """DuckDB's query for the last rows of a stream, or of each of its partitions."""
    listed = ", ".join(column.name for column in stream.columns)
    within = sequenced(stream).duck[1:-1]
    numbers = f"row_number() OVER ({partition} ORDER BY TS, __seq) AS nr, count(*) OVER ({partition}) AS total"
    shown = f"(total - total % {slide})"
    numbered = f"(SELECT *, {numbers} FROM ({within}))"
    listed += ", __seq" if "__seq" in stream.duck else ""
    return f"(SELECT {listed} FROM {numbered} WHERE nr > {shown} - {rows} AND nr <= {shown})"


def sequenced(relation: Relation) -> Relation:
    """The leaf with the column `__seq` for DuckDB, the order of the records that have one instant."""
    if "__seq" in relation.duck:
        return relation
    listed = ", ".join(column.name for column in relation.columns)
    return replace(relation, duck=relation.duck.replace(f"SELECT {listed}", f"SELECT {listed}, __seq", 1))


def synchronised(g: Drawing, relation: Relation) -> Relation:
    """R[Sync](S): the relation at the last point of a clock that ticks when `t mod period = at`."""
    period = g.number(2, 4)
    period, at = g.clock or (period, g.pick([0, 0, period - 1]))
    g.clocks.add((period, at))
    last = f"({NOW} - ({NOW} - {at} + {period}) % {period})"
    return Relation(f"R[Sync{period}{at}]({relation.ours})", relation.duck.replace(NOW, last), relation.columns)
