"""Queries over one relation, or two of the same shape: filters, windows by columns, grouping, set operations, OVER."""

from __future__ import annotations

from collections.abc import Sequence

from tests.algebra.query_parts import NOW, Column, Drawing, Kind, Relation, named, select
from tests.algebra.query_scalars import Scope, outputs, predicate, scope, value
from tests.algebra.query_tops import total_order


def project(g: Drawing, relation: Relation) -> Relation:
    """Expressions over the rows that satisfy a condition; sometimes with DISTINCT."""
    a = g.name("a")
    mine = scope(a, relation.columns)
    items, columns = outputs(g, mine, 4)
    where = f" WHERE {predicate(g, mine, 2)}" if g.chance(70) else ""
    if (whole := [column.name for column in columns if column.kind == "int"]) and g.chance(15):
        above = g.name("c")
        items, columns = [*items, (f"({g.pick(whole)} + 1)", above)], (*columns, Column(above, "int"))
    once = g.chance(20)
    head = "SELECT DISTINCT" if once else "SELECT"
    ours, duck = select(items, named(relation, a), (where, where), head)
    return Relation(ours, duck, columns, relation.stream)


def now_filtered(g: Drawing, relation: Relation) -> Relation:
    """A filter by predicates over Now, which is τ at τ."""
    a = g.name("a")
    mine = scope(a, relation.columns)
    t = g.pick([f"{a}.{column.name}" for column in relation.of("int")] or ["3"])
    low, high = g.number(0, 4), g.number(0, 5)
    test = g.pick([
        f"{t} > Now - {high}", f"{t} BETWEEN Now - {high} AND Now - {low}", f"{t} <= Now - {low}",
        f"Now < {t} + {high}",
        f"({t} >= Now - {low} OR {predicate(g, mine, 0)})", f"Now >= {high}", f"2 * Now > {t} + {high}",
        f"NOT ({t} BETWEEN Now - {low} AND Now + {high})", f"(Now < {low} OR Now = {t} + {high})",
    ])  # fmt: skip
    if not t[0].isalpha():
        test = f"Now >= {high}"
    more = f" AND {predicate(g, mine)}" if g.chance(30) else ""
    items, columns = outputs(g, mine, 4)
    tails = f" WHERE {test}{more}", f" WHERE {test}{more}".replace("Now", f"({NOW})")
    ours, duck = select(items, named(relation, a), tails)
    return Relation(ours, duck, columns)


#: The text of a call, the kind of its result, that of its argument, and whether the result is exact.
Call = tuple[str, Kind, Kind, bool]


def _simple(text: str, kind: Kind, of: Kind, exact: bool = True) -> Call:
    return text, kind, of, exact


AGGREGATES = [
    _simple("COUNT(*)", "int", "int"), _simple("COUNT({})", "int", "str"), _simple("SUM({})", "int", "int"),
    _simple("MIN({})", "int", "int"), _simple("MAX({})", "int", "int"), _simple("MIN({})", "str", "str"),
    _simple("MAX({})", "str", "str"), _simple("SUM({})", "float", "float"), _simple("AVG({})", "float", "int"),
    _simple("COUNT(DISTINCT {})", "int", "int"), _simple("SUM(DISTINCT {})", "int", "int"),
    _simple("BOOL_AND({})", "bool", "bool"), _simple("BOOL_OR({})", "bool", "bool"),
    _simple("MEDIAN({})", "float", "int"), _simple("MAX({})", "float", "float"),
    _simple("STRING_AGG({0}, ',' ORDER BY {0})", "str", "str"),
    _simple("STRING_AGG({0}, '' ORDER BY {0} DESC)", "str", "str"), _simple("MIN({})", "float", "float"),
    _simple("FIRST({0} ORDER BY {0} NULLS LAST)", "int", "int"),
    _simple("LAST({0} ORDER BY {0} NULLS FIRST)", "str", "str"),
    _simple("PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY {})", "int", "int"),
    _simple("PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY {})", "float", "int"), _simple("AVG({})", "float", "float"),
    _simple("COUNT(DISTINCT {})", "int", "str"), _simple("ARG_MAX({0}, {0})", "int", "int"),
    _simple("STDDEV_SAMP({})", "float", "int", False), _simple("VAR_POP({})", "float", "float", False),
    _simple("COVAR_POP({0}, {0})", "float", "float", False), _simple("BIT_XOR({})", "int", "int"),
    _simple("SUM({})", "real", "real", False), _simple("AVG({})", "real", "real", False),
    _simple("MAX({})", "real", "real"), _simple("COUNT(DISTINCT {})", "int", "real"),
    _simple("VAR_POP({})", "real", "real", False),
]  # fmt: skip


def aggregates(
    g: Drawing, mine: Scope, most: int = 3, among: Sequence[Call] = AGGREGATES
) -> tuple[list[tuple[str, str]], list[Column]]:
    """Some aggregates, some of them with FILTER."""
    items, columns = [], []
    for _ in range(g.number(1, most)):
        text, kind, of, exact = g.pick(among)
        text = text.format(_argument(g, mine, of, "ORDER" in text))
        if g.chance(20):
            text += f" FILTER (WHERE {predicate(g, mine)})"
        name = g.name("g")
        items.append((text, name))
        columns.append(Column(name, kind, exact))
    return items, columns


def _argument(g: Drawing, mine: Scope, kind: Kind, ordered: bool) -> str:
    """The argument of an aggregate; if `ordered`, it is no constant, since DuckDB does not order by constants."""
    columns = [text for text, its in mine if its == kind]
    if not ordered or (columns and g.chance(50)):
        return g.pick(columns) if ordered else value(g, mine, kind)
    return f"COALESCE({g.pick(columns)}, {'0' if kind == 'int' else repr('x')})" if columns else _constant(kind)


def _constant(kind: Kind) -> str:
    return "NULLIF(1, 2)" if kind == "int" else "LOWER('A')"


def grouped(g: Drawing, relation: Relation) -> Relation:
    """GROUP BY with HAVING, over grouping sets, or over everything."""
    a = g.name("a")
    mine = scope(a, relation.columns)
    keys = g.some(mine, 0, 2)
    if keys and g.chance(15):
        keys[0] = (value(g, mine, keys[0][1]), keys[0][1])
        if f"{a}." not in keys[0][0] and (keys[0][0][0] != "(" or keys[0][0].startswith("(-")):
            keys = keys[1:]
    items, columns = aggregates(g, mine)
    named_keys = [(text, g.name("k")) for text, _ in keys]
    made = [Column(name, kind) for (_, name), (_, kind) in zip(named_keys, keys, strict=True)]
    tail = f" GROUP BY {'ALL' if g.chance(10) else _groups(g, [text for text, _ in keys])}" if keys else ""
    if g.chance(25):
        tail += f" HAVING {g.pick(['COUNT(*) > 1', 'COUNT(*) < 3', _having(g, mine)])}"
    ours, duck = select([*named_keys, *items], named(relation, a), (tail, tail))
    return Relation(ours, duck, (*made, *columns))


def _having(g: Drawing, mine: Scope) -> str:
    return f"SUM({value(g, mine, 'int')}) {g.pick(['>', '<=', '<>'])} {g.number(0, 3)}"


def _groups(g: Drawing, keys: list[str]) -> str:
    plain = ", ".join(keys)
    if not g.chance(40) or len(set(keys)) < len(keys):
        return plain
    sets = ", ".join(f"({key})" for key in [plain, keys[0], ""])
    return g.pick([f"ROLLUP ({plain})", f"CUBE ({plain})", f"GROUPING SETS ({sets})"])


#: Columns of type BIGINT: those of a stream, and the one that `timed` adds.
TIMES = ("n", "TS", "t")
BOUNDS = ("window_start", "window_end")


def timed(g: Drawing, relation: Relation) -> Relation:
    """The relation with a BIGINT column t, over which windows are possible."""
    a = g.name("a")
    kept = [column for column in relation.columns if column.exact and column.name not in (*TIMES, *BOUNDS)]
    whole = [f"{a}.{column.name}" for column in relation.of("int")] or ["2"]
    items = [(f"{a}.{column.name}", column.name) for column in kept] + [(f"CAST({g.pick(whole)} AS BIGINT)", "t")]
    ours, duck = select(items, named(relation, a), ("", ""))
    return Relation(ours, duck, (*kept, Column("t", "int")), relation.stream)


def windowed(g: Drawing, relation: Relation) -> Relation:
    """TUMBLE, HOP and CUMULATE over an integer column: their rows, or counts of them."""
    times = [column.name for column in relation.of("int") if column.name in TIMES]
    if not times or "(" in relation.ours:
        return grouped(g, relation)
    time, size, slide = g.pick(times), g.number(1, 5), g.number(1, 4)
    kind = g.pick(["TUMBLE", "HOP", "CUMULATE"])
    size = size if kind != "CUMULATE" else slide * g.number(1, 3)
    lengths = {"TUMBLE": f"{size}", "HOP": f"{slide}, {size}", "CUMULATE": f"{slide}, {size}"}[kind]
    ours = f"{kind}(TABLE {relation.ours}, DESCRIPTOR({time}), {lengths})"
    step = size if kind == "TUMBLE" else slide
    starts = f"(SELECT range * {size if kind == 'CUMULATE' else step} AS window_start FROM range(-30, 60)) AS w"
    ends = f"w.window_start + {size}"
    if kind == "CUMULATE":
        starts += f", (SELECT range * {slide} AS late FROM range(1, {size // slide + 1})) AS l"
        ends = "w.window_start + late"
    listed = ", ".join(f"r.{column.name}" for column in relation.columns)
    duck = f"(SELECT {listed}, w.window_start, {ends} AS window_end FROM {relation.duck} AS r, {starts} "
    duck += f"WHERE {time} >= w.window_start AND {time} < {ends})"
    columns = (*relation.columns, Column("window_start", "int"), Column("window_end", "int"))
    return Relation(ours, duck, columns, relation.stream)


def sessions(g: Drawing, relation: Relation) -> Relation:
    """SESSION: neighbours at most `gap` apart are in one session, which ends `gap` after its last value."""
    times = [column.name for column in relation.of("int") if column.name in TIMES]
    if not times or "(" in relation.ours:
        return grouped(g, relation)
    time, gap = g.pick(times), g.number(1, 3)
    parts = [column.name for column in relation.columns if column.name != time]
    part = g.pick(["", *parts])
    ours = f"SESSION(TABLE {relation.ours}{f' PARTITION BY {part}' if part else ''}, DESCRIPTOR({time}), {gap})"
    over = f"PARTITION BY {part} " if part else ""
    flag = f"CASE WHEN {time} - lag({time}) OVER ({over}ORDER BY {time}) <= {gap} THEN 0 ELSE 1 END"
    marked = f"(SELECT *, {flag} AS is_new FROM {relation.duck} WHERE {time} IS NOT NULL)"
    chained = f"(SELECT *, sum(is_new) OVER ({over}ORDER BY {time} RANGE UNBOUNDED PRECEDING) AS chain FROM {marked})"
    by = f"OVER (PARTITION BY {part + ', ' if part else ''}chain)"
    listed = ", ".join(column.name for column in relation.columns)
    bounds = f"min({time}) {by} AS window_start, max({time}) {by} + {gap} AS window_end"
    duck = f"(SELECT {listed}, {bounds} FROM {chained})"
    return Relation(ours, duck, (*relation.columns, Column("window_start", "int"), Column("window_end", "int")))


def over(g: Drawing, relation: Relation) -> Relation:
    """Window functions of a partition in a total order."""
    a = g.name("a")
    mine = scope(a, relation.columns)
    part = g.pick(["", *(text for text, _ in mine)])
    x, order = value(g, mine, "int", 0), total_order(g, mine)
    low, high = g.number(0, 2), g.number(0, 2)
    frame = f"ROWS BETWEEN {low} PRECEDING AND {high} FOLLOWING"
    call, kind = g.pick([
        ("ROW_NUMBER() OVER ({})", "int"), ("RANK() OVER ({})", "int"), (f"SUM({x}) OVER ({{}})", "int"),
        (f"LAG({x}) OVER ({{}})", "int"), (f"LEAD({x}, 2, 0) OVER ({{}})", "int"),
        (f"COUNT(*) OVER ({{}} {frame})", "int"),
        (f"SUM({x}) OVER ({{}} {frame})", "int"), (f"MAX({x}) OVER ({{}} ROWS {low} PRECEDING)", "int"),
        (f"LAG({x} IGNORE NULLS) OVER ({{}})", "int"), (f"LAST_VALUE({x} IGNORE NULLS) OVER ({{}} {frame})", "int"),
        (f"FIRST_VALUE({x}) OVER ({{}})", "int"), (f"AVG({x}) OVER ({{}})", "float"),
    ])  # fmt: skip
    call = call.format(f"{f'PARTITION BY {part} ' if part else ''}ORDER BY {order}")
    if g.chance(20):
        call = f"COUNT({x}) OVER ({f'PARTITION BY {part}' if part else ''})"
    items, columns = outputs(g, mine, 3)
    name = g.name("o")
    ours, duck = select([*items, (call, name)], named(relation, a), ("", ""))
    return Relation(ours, duck, (*columns, Column(name, kind)))


def combined(g: Drawing, left: Relation, right: Relation) -> Relation:
    """UNION, EXCEPT and INTERSECT, with and without ALL, of some columns of the same kinds."""
    a, b = g.name("a"), g.name("a")
    mine, theirs = scope(a, left.columns), scope(b, right.columns)
    kinds: list[Kind] = [g.pick(mine)[1] if mine else "int" for _ in range(g.number(1, 2))]
    names = [g.name("c") for _ in kinds]
    word = g.pick(["UNION ALL", "UNION", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL"])
    lefts = select(_picked(g, mine, kinds, names), named(left, a), ("", ""))
    rights = select(_picked(g, theirs, kinds, names), named(right, b), ("", ""))
    ours, duck = (f"({x} {word} {y})" for x, y in zip(lefts, rights, strict=True))
    columns = tuple(Column(name, kind) for name, kind in zip(names, kinds, strict=True))
    return Relation(ours, duck, columns, word == "UNION ALL" and left.stream and right.stream)


def _picked(g: Drawing, within: Scope, kinds: list[Kind], names: list[str]) -> list[tuple[str, str]]:
    return [(value(g, within, kind, 0), name) for kind, name in zip(kinds, names, strict=True)]
