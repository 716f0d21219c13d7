"""Cases: sources with their logs, and a query over them in our dialect and in DuckDB's."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from tests.algebra import query_arrays as arrays
from tests.algebra import query_arrivals as arrivals
from tests.algebra import query_joins as joins
from tests.algebra import query_patterns as patterns
from tests.algebra import query_recursion as recursion
from tests.algebra import query_shapes as shapes
from tests.algebra import query_times as times
from tests.algebra import query_tops as tops
from tests.algebra import query_views as views
from tests.algebra.query_leaves import Source, leaf, sources
from tests.algebra.query_parts import Drawing, Kept, Relation
from tests.algebra.query_tables import NAME, Table, tables


@dataclass(frozen=True)
class Case:
    """Statements in our dialect, and the query for DuckDB, in which `@T` is the instant."""

    sources: tuple[Source, ...]
    views: tuple[str, ...]
    query: str
    duck: str
    names: tuple[str, ...]
    output: str = "streamed"
    #: The views that are read with TS, and the clock, if any, at whose points all leaves are read.
    kept: tuple[Kept, ...] = ()
    clock: tuple[int, int] | None = None
    tables: tuple[Table, ...] = ()

    @property
    def inputs(self) -> list[str]:
        """The statements that declare the sources and tables."""
        return [declared.sql for declared in (*self.sources, *self.tables)]

    @property
    def statements(self) -> list[str]:
        """The statements that declare everything up to the query."""
        return [*self.inputs, *self.views, f"CREATE STREAMED VIEW Q AS {self.query}"]


UNARY = [
    shapes.project, shapes.grouped, shapes.grouped, shapes.grouped, shapes.now_filtered, shapes.windowed,
    tops.limited, tops.ranked, tops.qualified, tops.distinct_on, shapes.over, arrays.unnested, arrays.aggregated,
    joins.self_join, shapes.sessions, times.range_frame, recursion.recursive,
    patterns.matched,
]  # fmt: skip
BINARY = [
    joins.join, joins.join, joins.filtered_by_subquery, joins.filtered_by_subquery, joins.scalar_subquery,
    shapes.combined, shapes.combined, joins.lateral, joins.natural, times.asof, times.banded,
]  # fmt: skip
#: Operators that are left out if all leaves are read at the points of a clock: they would change at other instants.
NOT_AT_POINTS = (shapes.now_filtered,)
#: Operators that can be required by name. NAMES adds features of sources and leaves.
OPERATORS = {
    "asof": times.asof, "band": times.banded, "frame": times.range_frame, "recursion": recursion.recursive,
    "pattern": patterns.matched,
}  # fmt: skip
NAMES = (*OPERATORS, "arrival", "final", "union", "where", "table", "types")


def relation(g: Drawing, depth: int) -> Relation:
    """A query in which at most `depth` operators are nested."""
    if depth == 0:
        return _leaf(g)
    if ("arrival" in g.due and depth == 1) or g.chance(6):
        g.due.discard("arrival")
        return arrivals.in_order(g)
    relation = _operator(g, depth)
    return views.viewed(g, relation) if g.chance(12) else relation


def _leaf(g: Drawing) -> Relation:
    if "final" in g.due or (g.clock is None and g.chance(4)):
        g.due.discard("final")
        return times.final(g) or leaf(g)
    if g.due & {"table", "where"}:
        return leaf(g)
    if g.clock is None and g.chance(8):
        return views.pipes(g) or leaf(g)
    if "union" in g.due or (g.clock is None and g.chance(4)):
        g.due.discard("union")
        return arrivals.united(g) or leaf(g)
    if g.clock is None and g.chance(8):
        below = relation(g, 1) if g.chance(30) else leaf(g)
        return views.with_last_change(g, _compared(g, below))
    return leaf(g)


def _operator(g: Drawing, depth: int) -> Relation:
    operator = g.pick([build for build in [*UNARY, *BINARY] if g.clock is None or build not in NOT_AT_POINTS])
    if (due := g.due & OPERATORS.keys()) and (depth == 1 or g.chance()):
        operator = OPERATORS[due.pop()]
        g.due -= OPERATORS.keys()
    below = _compared(g, relation(g, depth - 1))
    if operator in (shapes.windowed, shapes.sessions):
        plain = below.ours.isalnum() and not any(column.name in shapes.BOUNDS for column in below.columns)
        return operator(g, below if plain else views.viewed(g, shapes.timed(g, below), sync=False))
    if operator in UNARY:
        return operator(g, below)
    if g.chance(8):
        return operator(g, below, arrays.given_rows(g))
    return operator(g, below, _compared(g, relation(g, g.number(0, depth - 1))))


def _compared(g: Drawing, relation: Relation) -> Relation:
    """The relation if it has a column with exact values, else a leaf: operators compare values."""
    return relation if any(column.exact for column in relation.columns) else leaf(g)


@st.composite
def cases(draw: st.DrawFn, most: int = 6, depth: int = 4, having: str = "", *, with_tables: bool = True) -> Case:
    """Any case; with `having`, one that has this feature of NAMES."""
    count = draw(st.integers(1, 3))
    registered = tuple(draw(sources(number, most, having)) for number in range(1, count + 1))
    tabled = with_tables and (having == "table" or draw(st.integers(0, 99)) >= 92)
    written = (draw(tables()),) if tabled else ()
    leaves = [source.leaf() for source in (*registered, *written)]
    outputs = (
        ["streamed"] * 12
        + ["istream"] * 2
        + ["dstream"] * 2
        + ["rstream"] * (having not in ("final", "union", "where"))
    )
    output = draw(st.sampled_from(outputs))
    clock = draw(st.sampled_from([(2, 0), (2, 1), (3, 0), (3, 2), (4, 0)])) if output == "rstream" else None
    g = Drawing(draw, leaves, clock, due={having} - {"", "types"})
    query = relation(g, g.number(1, depth))
    if output in ("istream", "dstream") and not all(column.exact for column in query.columns):
        output = "streamed"  # a value whose last digits vary from instant to instant would leave and enter
    listed = tuple(column.name for column in query.columns)
    alias = g.name("a")
    items = ", ".join(f"{alias}.{name}" for name in listed)
    head = f"SELECT {items}" if output == "streamed" else f"SELECT {output.capitalize()}({items})"
    texts = [head.replace("SELECT ", "SELECT STREAMED ") if output == "streamed" else head, f"SELECT {items}"]
    clocks = [
        f"CREATE STREAMED VIEW Sync{p}{at} AS SELECT Timepoint FROM R(clockStr) WHERE mod(Timepoint, {p}) = {at}"
        for p, at in sorted(g.clocks)
    ]
    named = [f"CREATE STREAM {name} AS {text}" for name, text in g.streams]
    named += [f"CREATE STREAMED VIEW {name} AS {text}" for name, text in g.views]
    ours, duck = (
        f"{text} FROM {query_text} AS {alias}" for text, query_text in zip(texts, (query.ours, query.duck), strict=True)
    )
    written = written if NAME in " ".join([ours, *named]) else ()
    return Case(registered, (*clocks, *named), ours, duck, listed, output, tuple(g.kept), clock, written)
