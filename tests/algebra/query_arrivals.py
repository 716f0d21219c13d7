"""Queries that depend on the order of arrival: aggregates, first rows and frames, over streams and their windows."""

from __future__ import annotations

from dataclasses import replace

from tests.algebra.query_leaves import WINDOWS, seen, sequenced
from tests.algebra.query_parts import Column, Drawing, Kind, Relation, named, select
from tests.algebra.query_scalars import Scope, predicate, scope, value
from tests.algebra.query_tables import NAME

#: Our call, DuckDB's call with its ORDER BY, and the kinds of the argument and the result.
CALLS: list[tuple[str, str, Kind, Kind]] = [
    ("LAST({})", "last({} ORDER BY {})", "int", "int"),
    ("FIRST({})", "first({} ORDER BY {})", "int", "int"),
    ("LAST({})", "last({} ORDER BY {})", "str", "str"),
    ("STRING_AGG({}, '-')", "string_agg({}, '-' ORDER BY {})", "str", "str"),
    ("ARRAY_AGG({})", "list({} ORDER BY {})", "int", "list"),
    ("ANY_VALUE({})", "any_value({} ORDER BY {})", "int", "int"),
    ("FIRST({})", "first({} ORDER BY {})", "real", "real"),
]


def in_order(g: Drawing) -> Relation:
    """A query that depends on the order of rows, sometimes over a derived table without TS."""
    listed = [candidate for candidate in g.leaves if candidate.ours != NAME]
    stream = sequenced(g.pick([candidate for candidate in listed if candidate.stream] or listed))
    if stream.stream and g.clock is None and g.chance(20):
        return _running(g, stream, "{0}.TS, {0}.__seq")
    windows = stream.stream and g.clock is None and g.chance(75)
    below, order = g.pick(WINDOWS)(g, stream) if windows else seen(g, stream), "{0}.TS, {0}.__seq"
    # without a window, a row that is upserted again with equal values keeps its old position among ties
    ties = stream.stream or "[" in below.ours
    if ties and "R[" not in below.ours and g.chance(10):
        return _running(g, below, order)
    if g.chance(40):
        below, order = derived(g, below), "{0}.__ts, {0}.__seq"
    return g.pick([_grouped, _grouped, _first, _framed] if ties else [_grouped])(g, below, order)


def derived(g: Drawing, below: Relation) -> Relation:
    """Some columns of the rows that satisfy a condition."""
    a = g.name("a")
    kept = g.some(below.columns[:-1], 1, 2)
    where = f" WHERE {predicate(g, scope(a, below.columns))}" if g.chance(50) else ""
    items = [(f"{a}.{column.name}", column.name) for column in kept]
    hidden = [(f"{a}.TS", "__ts"), (f"{a}.__seq", "__seq")]
    ours = select(items, named(below, a), (where, where))[0]
    duck = select([*items, *hidden], named(below, a), (where, where))[1]
    return Relation(ours, duck, tuple(kept))


def _first(g: Drawing, below: Relation, order: str) -> Relation:
    """The first rows by a column with ties, or by arrival."""
    a = g.name("a")
    mine = scope(a, below.columns)
    by = [f"{g.pick(mine)[0]}{g.pick(['', ' DESC'])}"] if g.chance(60) else []
    items = [(text, g.name("c")) for text, _ in mine]
    last = f" LIMIT {g.number(1, 3)}{' OFFSET 1' if g.chance(20) else ''}"
    ours = f" ORDER BY {by[0]}{last}" if by else last
    theirs = f" ORDER BY {', '.join([*(f'{key} NULLS {_nulls(key)}' for key in by), order.format(a)])}{last}"
    return _both(
        items, below, a, (ours, theirs), [Column(name, kind) for (_, name), (_, kind) in zip(items, mine, strict=True)]
    )


def _argument(g: Drawing, mine: Scope, kind: Kind) -> str:
    """The argument of a call, mostly a column."""
    columns = [text for text, its in mine if its == kind]
    return g.pick(columns) if columns and g.chance(80) else value(g, mine, kind)


def _nulls(key: str) -> str:
    return "FIRST" if key.endswith(" DESC") else "LAST"


def _both(
    items: list[tuple[str, str]], below: Relation, a: str, tails: tuple[str, str], columns: list[Column]
) -> Relation:
    return Relation(*select(items, named(below, a), tails), tuple(columns))


def _framed(g: Drawing, below: Relation, order: str) -> Relation:
    """Window functions whose values depend on the order of tied rows."""
    a = g.name("a")
    mine = scope(a, below.columns)
    x, part, by = _argument(g, mine, "int"), g.pick(["", *(text for text, _ in mine)]), g.pick(mine)[0]
    call = g.pick([
        f"SUM({x}) OVER ({{}} ROWS {g.number(0, 3)} PRECEDING)", f"LAG({x}) OVER ({{}})", "ROW_NUMBER() OVER ({})",
        f"LAST_VALUE({x}) OVER ({{}} ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)", f"LEAD({x}) OVER ({{}})",
    ])  # fmt: skip
    within = f"PARTITION BY {part} " if part else ""
    items = [(text, g.name("c")) for text, _ in mine]
    columns = [Column(name, kind) for (_, name), (_, kind) in zip(items, mine, strict=True)]
    name = g.name("o")
    calls = [(call.format(f"{within}ORDER BY {keys}"), name) for keys in (by, f"{by}, {order.format(a)}")]
    tables = named(below, a)
    texts = [select([*items, own], tables, ("", ""))[side] for side, own in enumerate(calls)]
    return Relation(texts[0], texts[1], (*columns, Column(name, "int")))


def _running(g: Drawing, below: Relation, order: str) -> Relation:
    """Running totals and row numbers in the order of TS: values common to peers, and values of single rows."""
    a = g.name("a")
    mine = scope(a, below.columns)
    x, part = _argument(g, mine, "int"), g.pick(["", *(text for text, _ in mine)])
    within = f"PARTITION BY {part} " if part else ""
    own, single = f"{within}ORDER BY {a}.TS", f"{within}ORDER BY {order.format(a)}"
    items = [(text, g.name("c")) for text, _ in mine]
    columns = [Column(name, kind) for (_, name), (_, kind) in zip(items, mine, strict=True)]
    ours, theirs = list(items), list(items)
    for _ in range(g.number(1, 3)):
        sums = [f"SUM({x})", f"COUNT({x})", "COUNT(*)", f"MIN({x})", f"MAX({x})"]
        rows = g.pick([*sums, f"FIRST_VALUE({x})", f"LAST_VALUE({x})"]) + " OVER ({} ROWS UNBOUNDED PRECEDING)"
        call, order_of_duck = g.pick([
            (f"{g.pick([*sums, 'RANK()', 'DENSE_RANK()'])} OVER ({{}})", own),
            (rows, single), ("ROW_NUMBER() OVER ({})", single), (f"LAG({x}) OVER ({{}})", single),
        ])  # fmt: skip
        name = g.name("o")
        ours.append((call.format(own), name))
        theirs.append((call.format(order_of_duck), name))
        columns.append(Column(name, "int"))
    tables = named(below, a)
    return Relation(select(ours, tables, ("", ""))[0], select(theirs, tables, ("", ""))[1], tuple(columns))


def united(g: Drawing) -> Relation | None:
    """UNION of derived streams, in which equal rows of one instant are duplicates; None without append-only streams."""
    streams = [leaf for leaf in g.leaves if leaf.stream]
    if not streams:
        return None
    kinds = {column.kind for column in streams[0].columns}
    sides = [g.pick(streams), g.pick([one for one in streams if {c.kind for c in one.columns} & kinds])]
    shared = [column.kind for column in sides[0].columns if column.kind in {c.kind for c in sides[1].columns}]
    chosen, names = g.some(shared, 1, 2), [g.name("c"), g.name("c")]
    ours, theirs = [], []
    for side in sides:
        listed = [f"{g.pick(side.of(kind)).name} AS {name}" for kind, name in zip(chosen, names, strict=False)]
        stream = g.name("D")
        where = f" WHERE {predicate(g, [(c.name, c.kind) for c in side.columns])}" if g.chance(40) else ""
        g.streams.append((stream, f"SELECT {', '.join(listed)} FROM {side.ours}{where}"))
        ours.append(f"SELECT {', '.join(names[: len(chosen)])} FROM {stream}")
        theirs.append(f"SELECT {', '.join(listed)}, TS AS __ts FROM {side.duck}{where}")
    columns = tuple(Column(name, kind) for name, kind in zip(names, chosen, strict=False))
    listed_names = ", ".join(column.name for column in columns)
    return Relation(f"({' UNION '.join(ours)})", f"(SELECT {listed_names} FROM ({' UNION '.join(theirs)}))", columns)


def _grouped(g: Drawing, below: Relation, order: str) -> Relation:
    a = g.name("a")
    mine = scope(a, below.columns)
    keys = [(text, g.name("k"), kind) for text, kind in g.some(mine, 0, 1)]
    named_keys = [(text, name) for text, name, _ in keys]
    columns = [Column(name, kind) for _, name, kind in keys]
    ours, theirs = list(named_keys), list(named_keys)
    for _ in range(g.number(1, 2)):
        kinds = {kind for _, kind in mine}
        call, duckdbs, of, kind = g.pick([made for made in CALLS if made[2] in kinds] or CALLS)
        argument, name = _argument(g, mine, of), g.name("g")
        condition = f" FILTER (WHERE {predicate(g, mine)})" if g.chance(15) else ""
        ours.append((call.format(argument) + condition, name))
        theirs.append((duckdbs.format(argument, order.format(a)) + condition, name))
        columns.append(Column(name, kind, kind != "list"))
    tail = f" GROUP BY {', '.join(text for text, _, _ in keys)}" if keys else ""
    tables = named(below, a)
    return replace(
        below,
        ours=select(ours, tables, (tail, tail))[0],
        duck=select(theirs, tables, (tail, tail))[1],
        columns=tuple(columns),
        stream=False,
    )
