"""Scalar expressions and predicates over the columns of items of FROM; one text for both dialects."""

from __future__ import annotations

from tests.algebra.query_parts import Column, Drawing, Kind

LITERALS: dict[Kind, list[str]] = {
    "int": ["0", "1", "2", "-1", "3", "CAST(NULL AS INTEGER)"],
    "str": ["'a'", "''", "'b'", "'ab'"],
    "float": ["0.5", "-1.25", "2.0"],
    "real": ["CAST(0.1 AS DOUBLE)", "CAST(-0.7 AS DOUBLE)", "CAST(3 AS DOUBLE)"],
    "bool": ["TRUE", "FALSE"],
    "dec": ["0.25", "-1.50", "CAST(3 AS DECIMAL(5, 1))"],
    "date": ["DATE '2024-05-02'", "DATE '2024-04-30'", "CAST(NULL AS DATE)"],
    "time": ["TIMESTAMP '2024-05-02 00:00:00'", "TIMESTAMP '2024-05-01 18:30:00'", "CAST(NULL AS TIMESTAMP)"],
}
ORDERED: tuple[Kind, ...] = ("int", "str", "float", "real", "dec", "date", "time")
#: Kinds that outputs have only if a column in scope has them.
TYPED: tuple[Kind, ...] = ("dec", "date", "time")
#: The columns in scope: for each the text that names it, and its kind.
Scope = list[tuple[str, Kind]]


def scope(alias: str, columns: tuple[Column, ...]) -> Scope:
    """The columns of an item that may be compared: those with exact values."""
    return [(f"{alias}.{column.name}", column.kind) for column in columns if column.exact]


def value(g: Drawing, within: Scope, kind: Kind, depth: int = 1) -> str:
    """An expression of a kind."""
    columns = [text for text, its in within if its == kind]
    if depth == 0 or g.chance(60):
        choices = columns * 3 + LITERALS[kind][:3] if columns else LITERALS[kind]
        return g.pick(choices)
    if g.chance(25):
        first, second = value(g, within, kind, depth - 1), value(g, within, kind, depth - 1)
        return f"CASE WHEN {predicate(g, within, depth - 1)} THEN {first} ELSE {second} END"
    return _KINDS[kind](g, within, depth - 1)


def _integer(g: Drawing, within: Scope, depth: int) -> str:
    a, b = (value(g, within, "int", depth) for _ in range(2))
    s = value(g, within, "str", depth)
    days = [text for text, kind in within if kind == "date"]
    of_days = [f"CAST({days[0]} - DATE '2024-05-01' AS INTEGER)", f"EXTRACT(DAY FROM {days[-1]})"] if days else []
    return g.pick([
        f"({a} + {b})", f"({a} - {b})", f"({a} * 2)", f"COALESCE({a}, {b})", f"ABS({a})", f"({a} % 3)", f"(- {a})",
        f"LENGTH({s})", f"NULLIF({a}, {b})", f"GREATEST({a}, {b})", f"LEAST({a}, 1)", *of_days,
    ])  # fmt: skip


def _text(g: Drawing, within: Scope, depth: int) -> str:
    a, b = (value(g, within, "str", depth) for _ in range(2))
    return g.pick([f"({a} || {b})", f"UPPER({a})", f"LOWER({a})", f"COALESCE({a}, {b})", f"NULLIF({a}, {b})"])


def _float(g: Drawing, within: Scope, depth: int) -> str:
    a, b = (value(g, within, "float", depth) for _ in range(2))
    n = value(g, within, "int", depth)
    return g.pick([f"({a} + {b})", f"({a} * 2.0)", f"({a} - {n})", f"COALESCE({a}, {b})", f"CAST({n} AS DOUBLE)"])


def _real(g: Drawing, within: Scope, depth: int) -> str:
    """A DOUBLE expression in which every operation rounds once, so that both engines agree to the last bit."""
    a, b = (value(g, within, "real", depth) for _ in range(2))
    n = value(g, within, "int", depth)
    return g.pick([
        f"({a} + {b})", f"({a} * {b})", f"({a} - {n})", f"({a} / CAST(3 AS DOUBLE))", f"COALESCE({a}, {b})",
        f"(CAST({n} AS DOUBLE) / CAST(7 AS DOUBLE))",
    ])  # fmt: skip


def _decimal(g: Drawing, within: Scope, depth: int) -> str:
    a, b = (value(g, within, "dec", depth) for _ in range(2))
    return g.pick(
        [f"({a} + {b})", f"({a} - {b})", f"({a} * 2)", f"ABS({a})", f"COALESCE({a}, {b})", f"LEAST({a}, {b})"]
    )


def _date(g: Drawing, within: Scope, depth: int) -> str:
    a, b = (value(g, within, "date", depth) for _ in range(2))
    t = value(g, within, "time", depth)
    return g.pick([f"({a} + 1)", f"({a} - 2)", f"CAST({t} AS DATE)", f"COALESCE({a}, {b})", f"GREATEST({a}, {b})"])


def _timestamp(g: Drawing, within: Scope, depth: int) -> str:
    a, b = (value(g, within, "time", depth) for _ in range(2))
    d = value(g, within, "date", depth)
    return g.pick([
        f"({a} + INTERVAL '6' HOUR)", f"({a} - INTERVAL '1' DAY)", f"CAST({d} AS TIMESTAMP)", f"COALESCE({a}, {b})",
        f"DATE_TRUNC('day', {a})", f"LEAST({a}, {b})", f"({d} + INTERVAL '90' MINUTE)",
    ])  # fmt: skip


def predicate(g: Drawing, within: Scope, depth: int = 1) -> str:
    """A condition: TRUE, FALSE or NULL."""
    if depth > 0 and g.chance(35):
        a, b = predicate(g, within, depth - 1), predicate(g, within, depth - 1)
        return g.pick([f"({a} AND {b})", f"({a} OR {b})", f"(NOT {a})", f"({a} IS NOT TRUE)"])
    flags = [text for text, kind in within if kind == "bool"]
    if flags and g.chance(20):
        return g.pick(flags)
    return comparison(g, within, within, max(depth, 0))


def comparison(g: Drawing, left: Scope, right: Scope, depth: int = 0) -> str:
    """A comparison of a value of one scope with one of another, of a kind that both have."""
    known = {kind for _, kind in left}
    kind = g.pick([kind for kind in ORDERED if kind in known] or ["int"])
    other: Kind = "time" if kind == "date" and ("time" in {kind for _, kind in right}) and g.chance(30) else kind
    a, b = value(g, left, kind, depth), value(g, right, other, depth)
    operator = g.pick(["=", "=", "<", "<=", ">", ">=", "<>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"])
    if kind == "int" and g.chance(15):
        return _of_several(g, left, right, a, b)
    if left is right and other == kind and g.chance(25):
        low, high = LITERALS[kind][:2]
        return g.pick([f"{a} IS NULL", f"{a} IS NOT NULL", f"{a} IN ({low}, {high})", f"{a} BETWEEN {low} AND {b}"])
    return f"{a} {operator} {b}"


def _of_several(g: Drawing, left: Scope, right: Scope, a: str, b: str) -> str:
    """A comparison of rows or of arrays.

    DuckDB takes two NULLs in rows as equal, and ignores NULLs among the elements that must be contained. So there are
    no NULLs where they would decide the result.
    """
    c, d = value(g, left, "int", 0), value(g, right, "int", 0)
    row, other = f"(COALESCE({a}, 0), COALESCE({c}, 1))", f"(COALESCE({b}, 1), COALESCE({d}, 0))"
    return g.pick([
        *(f"{row} {operator} {other}" for operator in ("=", "<", "<=", ">", ">=", "<>")),
        f"{row} IN ({other}, (1, 0))", f"{row} BETWEEN (0, 1) AND {other}",
        f"ARRAY[{a}, {c}] @> ARRAY[COALESCE({b}, 0)]", f"ARRAY[COALESCE({b}, 0)] <@ ARRAY[{a}, {c}, 1]",
        f"ARRAY[{a}, {c}] && ARRAY[{b}, {d}]", f"{b} = ANY (ARRAY[{a}, 1])",
    ])  # fmt: skip


def _boolean(g: Drawing, within: Scope, depth: int) -> str:
    return f"({predicate(g, within, depth)})"


_KINDS = {
    "int": _integer, "str": _text, "float": _float, "real": _real, "bool": _boolean, "dec": _decimal,
    "date": _date, "time": _timestamp,
}  # fmt: skip


def outputs(g: Drawing, within: Scope, most: int = 3) -> tuple[list[tuple[str, str]], tuple[Column, ...]]:
    """Up to `most` select items: (text, name), and their columns."""
    items, columns = [], []
    kinds: list[Kind] = ["int", "int", "str", "float", "bool", *(kind for _, kind in within if kind in TYPED)]
    for _ in range(g.number(1, most)):
        keep = g.chance(65)
        text, kind = g.pick(within) if keep else ("", g.pick(kinds))
        name = g.name("c")
        items.append((text if keep else value(g, within, kind), name))
        columns.append(Column(name, kind))
    return items, tuple(columns)
