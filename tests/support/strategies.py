"""Random sources, histories of their logs, and views over them."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st

from tests.support.oracle import Advance, Bad, Event, Record, Row


def examples(count: int) -> int:
    """`count` examples if the profile has 30, and in proportion for other profiles."""
    return max(1, count * settings().max_examples // 30)


#: An instant above every instant of a history.
END = 20
INSTANTS = st.integers(0, 14)
_DAYS = [datetime.date(2024, 1, day) for day in (1, 2, 3)]
COLUMNS: dict[str, tuple[str, pa.DataType, st.SearchStrategy[object]]] = {
    "k": ("INTEGER", pa.int32(), st.integers(0, 2)),
    "n": ("BIGINT", pa.int64(), st.integers(-2, 4)),
    "s": ("VARCHAR", pa.string(), st.sampled_from(["", "a", "B", "ab", "é"])),
    "f": ("DOUBLE", pa.float64(), st.sampled_from([0.5, -1.25, 2.0])),
    "b": ("BOOLEAN", pa.bool_(), st.booleans()),
    "d": ("DATE", pa.date32(), st.sampled_from(_DAYS)),
}
KEYS: list[tuple[str, ...]] = [("k",), ("s",), ("k", "b"), ()]


@dataclass(frozen=True)
class SourceShape:
    """The declaration of a source: nullable columns, key, slack, and where a record has its instant and operation."""

    nullable: frozenset[str]
    keys: tuple[str, ...]
    slack: int
    timestamp_column: bool
    tagged: str

    @property
    def schema(self) -> pa.Schema:
        """The schema of the stream's relation: the declared columns and TS."""
        fields = [pa.field(name, kind, name in self.nullable) for name, (_, kind, _) in COLUMNS.items()]
        return pa.schema([*fields, pa.field("TS", pa.int64(), nullable=False)])

    @property
    def sql(self) -> str:
        """The statements that declare source T and stream S."""
        columns = ", ".join(
            f"{name} {type_}{'' if name in self.nullable else ' NOT NULL'}" for name, (type_, _, _) in COLUMNS.items()
        )
        timestamp = " TIMESTAMP BY at" if self.timestamp_column else ""
        tagged = {"header": "BY HEADER", "none": "NONE", "column": "BY tag"}[self.tagged]
        key = ", ".join(self.keys) or "NULL"
        return (
            f"REGISTER SOURCE T ({columns}) FROM t SLACK {self.slack}{timestamp} TAGGED {tagged};"
            f"CREATE STREAM S OVER T KEY {key};"
        )


@dataclass(frozen=True)
class History:
    """A source and its log: each event as the oracle sees it, and the dict that is pushed, None for a heartbeat."""

    shape: SourceShape
    events: tuple[tuple[Event, Row | None], ...]

    @property
    def seen(self) -> list[Event]:
        """The events as the oracle reads them."""
        return [event for event, _ in self.events]

    @property
    def pushed(self) -> list[Row]:
        """The records in log order, without heartbeats."""
        return [record for _, record in self.events if record is not None]


@st.composite
def shapes(draw: st.DrawFn) -> SourceShape:
    """Any declaration of a source."""
    return SourceShape(
        draw(st.frozensets(st.sampled_from(list(COLUMNS)))),
        draw(st.sampled_from(KEYS)),
        draw(st.integers(0, 3)),
        draw(st.booleans()),
        draw(st.sampled_from(["header", "none", "column"])),
    )


@st.composite
def rows(draw: st.DrawFn, shape: SourceShape) -> Row:
    """A row that fits the declaration."""
    return {
        name: draw(st.none() | values if name in shape.nullable else values) for name, (_, _, values) in COLUMNS.items()
    }


@st.composite
def records(draw: st.DrawFn, shape: SourceShape) -> tuple[Event, Row]:
    """A record: an upsert, a deletion by key, or one that cannot be read."""
    ts, row = draw(INSTANTS), draw(rows(shape))
    pushed: Row = {**row, "at" if shape.timestamp_column else "ts": ts}
    tag = {"header": "op", "column": "tag", "none": "op"}[shape.tagged]
    kind = draw(st.sampled_from(["upsert"] * 5 + ["delete"] * 2 + ["bad type", "no instant"]))
    if shape.tagged == "column" or draw(st.booleans()):
        pushed[tag] = draw(st.sampled_from(["+", "u"]))
    if kind == "bad type":
        return Bad(), {**pushed, "n": "many"}
    if kind == "no instant":
        return Bad(), {name: value for name, value in pushed.items() if name not in ("at", "ts")}
    if kind == "delete" and shape.tagged != "none":
        kept = {name: row[name] for name in shape.keys} if shape.keys else row
        where = {name: pushed[name] for name in ("at", "ts") if name in pushed}
        return Record(ts, kept, deletion=True), {**kept, **where, tag: "-"}
    return Record(ts, row), pushed


@st.composite
def histories(draw: st.DrawFn, *, advances: bool = True, max_size: int = 16) -> History:
    """Any log: disorder within and beyond the slack, equal instants, NULLs, deletions, bad records and heartbeats."""
    shape = draw(shapes())
    record = records(shape)
    promise = INSTANTS.map(lambda ts: (Advance(ts), None))
    event = st.one_of(record, record, record, promise) if advances else record
    return History(shape, tuple(draw(st.lists(event, max_size=max_size))))


@dataclass(frozen=True)
class View:
    """`CREATE STREAMED VIEW name AS SELECT outputs FROM over WHERE predicate`; `outputs` are (expression, name)."""

    name: str
    over: str
    outputs: tuple[tuple[str, str], ...]
    predicate: str | None
    needs: frozenset[str] = field(default=frozenset())

    def select(self, table: str) -> str:
        """The query over a table expression."""
        outputs = ", ".join(text if text == name else f"{text} AS {name}" for text, name in self.outputs)
        return f"SELECT {outputs} FROM {table}" + (f" WHERE {self.predicate}" if self.predicate else "")

    @property
    def sql(self) -> str:
        """The statement."""
        return f"CREATE STREAMED VIEW {self.name} AS {self.select(f'R({self.over})')}"

    @property
    def uses_ts(self) -> bool:
        """Whether TS of the input is read."""
        return "TS" in self.needs

    def keys(self, below: tuple[str, ...]) -> tuple[str, ...]:
        """The names under which the key of the input survives; () if one of its columns is left out."""
        renamed: dict[str, str] = {}
        for text, name in self.outputs:
            renamed.setdefault(text, name)
        return tuple(renamed[key] for key in below) if all(key in renamed for key in below) else ()


_OUTPUTS: list[tuple[str, str, str]] = [
    ("n + 1", "n1", "n"), ("n * 2 - k", "e", "n k"), ("COALESCE(n, 0)", "c", "n"), ("UPPER(s)", "upper_s", "s"),
    ("CASE WHEN n > 0 THEN s ELSE 'x' END", "w", "n s"), ("s || '!'", "sx", "s"), ("n > 0", "p", "n"),
    ("TS", "TS", "TS"), ("TS", "instant", "TS"), ("TS + n", "tn", "TS n"), ("b AND n > 1", "ba", "b n"),
    ("n IS NULL", "isn", "n"), ("f * 2", "f2", "f"), ("k", "k2", "k"), ("1", "one", ""), ("d", "day", "d"),
]  # fmt: skip
_PREDICATES: list[tuple[str, str]] = [
    ("n > 0", "n"), ("n IS NULL", "n"), ("s = 'a' OR n < 2", "s n"), ("NOT b", "b"), ("b", "b"), ("TS > 4", "TS"),
    ("f > 0.0 AND n <> 1", "f n"), ("n BETWEEN 0 AND 3", "n"), ("s IN ('a', 'B')", "s"), ("s LIKE 'a%'", "s"),
    ("k = n", "k n"), ("TRUE", ""), ("NULL", ""), ("d >= DATE '2024-01-02'", "d"), ("TS - n < 6", "TS n"),
    ("b IS NOT TRUE", "b"), ("k IS DISTINCT FROM n", "k n"),
]  # fmt: skip


@st.composite
def views(draw: st.DrawFn, name: str, over: str, columns: frozenset[str], *, ts: bool) -> View:
    """A view over a relation with these columns; `ts`: whether its expressions may read TS."""
    have = columns | ({"TS"} if ts else set()) if ts or "TS" in columns else columns
    outputs = [(text, as_, need) for text, as_, need in _OUTPUTS if set(need.split()) <= have]
    outputs += [(column, column, column) for column in sorted(columns) if column != "TS"] * 2
    chosen = draw(
        st.lists(st.sampled_from(outputs), min_size=1, max_size=5, unique_by=lambda output: output[1].lower())
    )
    predicates = [(text, need) for text, need in _PREDICATES if set(need.split()) <= have]
    predicate = draw(st.none() | st.sampled_from(predicates))
    needs = {need for _, _, needed in chosen for need in needed.split()} | set((predicate or ("", ""))[1].split())
    picked = tuple((text, as_) for text, as_, _ in chosen)
    return View(name, over, picked, predicate and predicate[0], frozenset(needs))
