"""A case: sources with their logs, a query over them, and how a session cuts the work."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import query_joins as joins
import query_shapes as shapes
from hypothesis import strategies as st
from query_leaves import END, Source, leaf, load, sources, synchronised
from query_parts import NOW, Column, Drawing, Relation

from dsms.catalog.objects import Object, Query
from dsms.testing import LocalSession

Bag = list[tuple[object, ...]]


@dataclass(frozen=True)
class Case:
    """Statements in our language, and the query for DuckDB with `@T` for the instant."""

    sources: tuple[Source, ...]
    views: tuple[str, ...]
    query: str
    duck: str
    names: tuple[str, ...]
    output: str = "streamed"

    @property
    def statements(self) -> list[str]:
        """What declares everything."""
        return [*(source.sql for source in self.sources), *self.views, f"CREATE STREAMED VIEW Q AS {self.query}"]


UNARY = [
    shapes.project, shapes.grouped, shapes.grouped, shapes.grouped, shapes.now_filtered, shapes.windowed,
    shapes.limited, shapes.ranked, shapes.over, joins.unnested, joins.self_join, shapes.sessions,
]  # fmt: skip
BINARY = [
    joins.join, joins.join, joins.filtered_by_subquery, joins.filtered_by_subquery, joins.scalar_subquery,
    shapes.combined, shapes.combined, joins.lateral,
]  # fmt: skip


def relation(g: Drawing, depth: int) -> Relation:
    """A query of at most so many operators one above the other."""
    if depth == 0:
        return leaf(g)
    found = _operator(g, depth)
    return viewed(g, found) if g.chance(12) else found


def _operator(g: Drawing, depth: int) -> Relation:
    operator = g.one([*UNARY, *BINARY])
    below = _compared(g, relation(g, depth - 1))
    if operator in (shapes.windowed, shapes.sessions):
        plain = below.ours.isalnum() and not any(column.name in shapes.BOUNDS for column in below.columns)
        return operator(g, below if plain else viewed(g, shapes.timed(g, below), sync=False))
    if operator in UNARY:
        return operator(g, below)
    return operator(g, below, _compared(g, relation(g, g.number(0, depth - 1))))


def _compared(g: Drawing, found: Relation) -> Relation:
    """What an operator reads has a column whose values are exact."""
    return found if any(column.exact for column in found.columns) else leaf(g)


def viewed(g: Drawing, found: Relation, *, sync: bool = True) -> Relation:
    """The relation under the name of a view; sometimes as it was at a synchronisation point."""
    if "(" not in found.ours and "[" not in found.ours:
        return found
    name = g.name("V")
    text = found.ours[1:-1] if found.is_query else f"SELECT * FROM {found.ours} AS v"
    columns = found.columns if found.is_query else tuple(c for c in found.columns if c.name != "TS")
    duck = found.duck if columns == found.columns else _without_ts(found, columns)
    g.views.append((name, Relation(text, duck, columns)))
    seen = Relation(name, duck, columns)
    return synchronised(g, seen) if sync and g.chance(25) else seen


def _without_ts(found: Relation, columns: Sequence[Column]) -> str:
    return f"(SELECT {', '.join(column.name for column in columns)} FROM {found.duck})"


@st.composite
def cases(draw: st.DrawFn, most: int = 6, depth: int = 4) -> Case:
    """Any case."""
    count = draw(st.integers(1, 3))
    found = tuple(draw(sources(number, most)) for number in range(1, count + 1))
    g = Drawing(draw, [source.leaf() for source in found])
    query = relation(g, g.number(1, depth))
    output = g.one(["streamed"] * 6 + ["istream", "dstream"])
    listed = tuple(column.name for column in query.columns)
    alias = g.name("a")
    items = ", ".join(f"{alias}.{name}" for name in listed)
    head = f"SELECT {items}" if output == "streamed" else f"SELECT {output.capitalize()}({items})"
    texts = [head.replace("SELECT ", "SELECT STREAMED ") if output == "streamed" else head, f"SELECT {items}"]
    clocks = [
        f"CREATE STREAMED VIEW Sync{p}{at} AS SELECT Timepoint FROM R(clockStr) WHERE mod(Timepoint, {p}) = {at}"
        for p, at in sorted(g.clocks)
    ]
    views = [f"CREATE STREAMED VIEW {name} AS {one.ours}" for name, one in g.views]
    ours, duck = (f"{text} FROM {one} AS {alias}" for text, one in zip(texts, (query.ours, query.duck), strict=True))
    return Case(found, (*clocks, *views), ours, duck, listed, output)


class Session(LocalSession):
    """A session in which only the query runs that is asked for."""

    def _start(self, found: Object) -> None:
        if isinstance(found, Query) and found.name == "Q":
            super()._start(found)


def session_of(case: Case, partitions: int, batch_records: int | None, *, eager: bool = False) -> LocalSession:
    """The case run in a session; `eager`: the query is there before the records, which come in turns."""
    session = Session(partitions, batch_records)
    statements = case.statements
    session.execute("; ".join(statements if eager else [source.sql for source in case.sources]))
    turns = itertools.zip_longest(*(source.pushed for source in case.sources))
    logs = (
        [(at, one) for turn in turns for at, one in enumerate(turn) if one is not None]
        if eager
        else [(at, one) for at, source in enumerate(case.sources) for one in source.pushed]
    )
    for at, one in logs:
        _push(session, case.sources[at], one)
    session.advance(END + 1)
    if not eager:
        session.execute("; ".join(statements[len(case.sources) :]))
    return session


def _push(session: LocalSession, source: Source, one: object) -> None:
    if isinstance(one, int):
        promise(session, source, one)
    else:
        session.push(f"T{source.number}", [one])


def promise(session: LocalSession, source: Source, ts: int) -> None:
    """A promise in the log of one source."""
    from operators.clock import Heartbeat

    log = session._log_of(f"T{source.number}")
    log.heartbeats.append(Heartbeat(len(log.records), ts))


class Duck:
    """DuckDB without its optimizer, over the histories of one case at a time."""

    def __init__(self) -> None:
        self.database = duckdb.connect()
        self.database.execute("PRAGMA disable_optimizer; PRAGMA threads=1")

    def relations(self, case: Case) -> list[Bag]:
        """The rows at every instant from -1 on, when nothing is there yet."""
        load(self.database, case.sources)
        self.database.execute(f"PREPARE q AS {case.duck.replace(NOW, '$1::BIGINT')}")
        found = [self.database.execute(f"EXECUTE q({at})").fetchall() for at in range(-1, END + 1)]
        self.database.execute("DEALLOCATE q")
        return streamed(found, case.output)


def streamed(relations: list[Bag], output: str) -> list[Bag]:
    """Istream and Dstream of the relations: all rows that entered, that left, after the first up to each instant."""
    if output == "streamed":
        return relations
    total: Counter[tuple[object, ...]] = Counter()
    found = []
    for before, after in zip([relations[0], *relations], relations, strict=False):
        came, gone = Counter(after) - Counter(before), Counter(before) - Counter(after)
        total += came if output == "istream" else gone
        found.append(list(total.elements()))
    return found


def same(ours: Bag, theirs: Bag) -> bool:
    """Whether two bags are equal, floats to nine digits."""
    if len(ours) != len(theirs):
        return False
    left, right = (sorted(bag, key=_rank) for bag in (ours, theirs))
    return all(_equal(a, b) for one, other in zip(left, right, strict=True) for a, b in zip(one, other, strict=True))


def _rank(row: tuple[object, ...]) -> list[tuple[object, ...]]:
    return [_place(value) for value in row]


def _place(value: object) -> tuple[object, ...]:
    if value is None:
        return (0,)
    if isinstance(value, bool | str):
        return (1, str(value))
    return (2, float(f"{float(value):.8g}") + 0.0)  # type: ignore[arg-type]


def _equal(a: object, b: object) -> bool:
    if isinstance(a, bool | str) or a is None or isinstance(b, bool | str) or b is None:
        return a == b and type(a) is type(b)
    return math.isclose(float(a), float(b), rel_tol=1e-9, abs_tol=1e-9)  # type: ignore[arg-type]
