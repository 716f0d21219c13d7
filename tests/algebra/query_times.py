"""Queries about proximity in time: as-of joins, band joins, RANGE frames, and final results of windows."""

from __future__ import annotations

from collections.abc import Sequence

from tests.algebra import query_joins as joins
from tests.algebra.query_leaves import leaf
from tests.algebra.query_parts import NOW, Column, Drawing, Kind, Relation, named, select
from tests.algebra.query_scalars import Scope, outputs, predicate, scope
from tests.algebra.query_shapes import AGGREGATES, aggregates, grouped
from tests.algebra.query_tops import total_order
from tests.algebra.query_views import with_last_change

NUMBERS: tuple[Kind, ...] = ("int", "float", "real", "dec")
DATES: tuple[Kind, ...] = ("date", "time")
FAMILIES = (NUMBERS, DATES)
#: A column of each side of a join, and its kind.
Pair = tuple[tuple[str, Kind], tuple[str, Kind]]


def _pair(g: Drawing, mine: Scope, theirs: Scope) -> Pair | None:
    """A pair of columns, one of each side, that have a distance."""
    pairs = [
        (column, other)
        for column in mine
        for other in theirs
        if _family(column[1]) and _family(column[1]) == _family(other[1])
    ]
    dated = [pair for pair in pairs if pair[0][1] in DATES or "dec" in (pair[0][1], pair[1][1])]
    return g.pick(dated if dated and g.chance(60) else pairs) if pairs else None


def _family(kind: Kind) -> tuple[Kind, ...]:
    return next((family for family in FAMILIES if kind in family), ())


def asof(g: Drawing, left: Relation, right: Relation) -> Relation:
    """ASOF JOIN: each row with the nearest one before or after it; of equal times, the least row by all columns."""
    if not all(column.exact for column in right.columns):
        right = leaf(g)
    a, b = g.name("a"), g.name("a")
    mine, theirs = scope(a, left.columns), scope(b, right.columns)
    pair = _pair(g, mine, theirs)
    if pair is None:
        return joins.join(g, left, right)
    using = _using(g, left, right, (a, b)) if g.chance(15) else None
    said, on, order = using or _on(g, pair, mine, theirs)
    items, columns = _with_one_of(g, theirs, *outputs(g, [*mine, *theirs], 3))
    outer, where = g.pick(["", "LEFT "]), f" WHERE {predicate(g, [*mine, *theirs])}" if g.chance(25) else ""
    (ours_left, duck_left), (ours_right, duck_right) = named(left, a), named(right, b)
    ours = f"{ours_left} ASOF {outer}JOIN {ours_right} {said or f'ON {on}'}"
    ties = ", ".join(f"{text} NULLS LAST" for text, _ in theirs)
    nearest = f"LATERAL (SELECT * FROM {duck_right} WHERE {on} ORDER BY {order}, {ties} LIMIT 1) AS {b}"
    return Relation(*select(items, (ours, f"{duck_left} {outer}JOIN {nearest} ON TRUE"), (where, where)), columns)


def _with_one_of(
    g: Drawing, theirs: Scope, items: list[tuple[str, str]], columns: tuple[Column, ...]
) -> tuple[list[tuple[str, str]], tuple[Column, ...]]:
    """The select items and one more of the right side, by which partners can be distinguished."""
    (text, kind), name = g.pick(theirs), g.name("c")
    return [*items, (text, name)], (*columns, Column(name, kind))


def _on(g: Drawing, pair: Pair, mine: Scope, theirs: Scope) -> tuple[str, str, str]:
    """The parts of ASOF JOIN ON: no USING clause, the condition, and the order of the right side."""
    (x, kind), (y, other) = pair
    if kind == other == "int" and g.chance(25):
        x, y = g.pick([(f"{x} + 1", y), (x, f"{y} * 2"), (f"ABS({x})", y), (x, f"- {y}")])
    if kind != other or kind in _NARROW:
        x, y = _narrow(x, kind, other), _narrow(y, other, kind)
    operator = g.pick([">=", ">=", ">", "<=", "<"])
    tests = [f"{x} {operator} {y}" if g.chance(70) else f"{y} {_SWAPPED[operator]} {x}"]
    tests += [f"{x} = {y}" for x, y in _equal(g, mine, theirs)]
    return "", " AND ".join(tests[::-1] if g.chance() else tests), f"{y} {'DESC' if operator[0] == '>' else 'ASC'}"


#: The types to which operands are cast before a comparison: decimals of many digits are not compared.
_NARROW: dict[Kind, str] = {"dec": "DECIMAL(18, 2)", "float": "DOUBLE"}


def _narrow(text: str, kind: Kind, other: Kind) -> str:
    to = _NARROW.get(kind) or ("DECIMAL(18, 2)" if kind == "int" and other == "dec" else None)
    return text if to is None or (kind == other and text[-2:] in (".m", ".f")) else f"CAST({text} AS {to})"


def _using(g: Drawing, left: Relation, right: Relation, aliases: tuple[str, str]) -> tuple[str, str, str] | None:
    """The parts of ASOF JOIN USING, which compares its last column by >=; None without common columns."""
    a, b = aliases
    common = [
        column.name
        for column in left.columns
        if column in right.columns and _family(column.kind) and column.kind != "dec"
    ]
    if not common:
        return None
    time = g.pick(common)
    equal = g.some([column.name for column in left.columns if column in right.columns and column.name != time], 0, 2)
    tests = [f"{a}.{name} = {b}.{name}" for name in equal]
    return (
        f"USING ({', '.join([*equal, time])})",
        " AND ".join([*tests, f"{a}.{time} >= {b}.{time}"]),
        f"{b}.{time} DESC",
    )


_SWAPPED = {">=": "<=", ">": "<", "<=": ">=", "<": ">"}


def _equal(g: Drawing, mine: Scope, theirs: Scope) -> list[tuple[str, str]]:
    """Up to two pairs of columns of one kind, more often of one name, because more rows then have partners."""
    pairs = [(x, y) for x, kind in mine for y, other in theirs if kind == other]
    alike = [(x, y) for x, y in pairs if x.split(".")[1] == y.split(".")[1] and ".TS" not in x]
    return g.some(alike if alike and g.chance(60) else pairs, 0, g.pick([1, 1, 2])) if g.chance(70) else []


def banded(g: Drawing, left: Relation, right: Relation) -> Relation:
    """A join of any kind, EXISTS or NOT EXISTS, on a range of distances, with and without equalities."""
    a, b = g.name("a"), g.name("a")
    mine, theirs = scope(a, left.columns), scope(b, right.columns)
    pair = _pair(g, mine, theirs)
    if pair is None:
        return joins.join(g, left, right)
    tests = [band(g, *pair)] + [f"{x} = {y}" for x, y in _equal(g, mine, theirs)[:1]]
    if g.chance(20):
        tests.append(predicate(g, [*mine, *theirs]))
    on = " AND ".join(tests[::-1] if g.chance(30) else tests)
    sides = list(zip(named(left, a), named(right, b), strict=True))
    kind = g.pick(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", ",", "EXISTS", "NOT EXISTS"])
    if "EXISTS" in kind:
        items, columns = outputs(g, mine, 3)
        tails = [f" WHERE {kind} (SELECT 1 FROM {theirs} WHERE {on})" for _, theirs in sides]
        return Relation(*select(items, named(left, a), (tails[0], tails[1])), columns)
    items, columns = _with_one_of(g, theirs, *outputs(g, [*mine, *theirs], 3))
    end = f" WHERE {on}" if kind == "," else f" ON {on}"
    ours, duck = (f"{x} {kind} {y}" if kind != "," else f"{x}, {y}" for x, y in sides)
    return Relation(*select(items, (ours, duck), (end, end)), columns)


#: Ranges of x around y: by numbers or intervals, and by differences of numbers.
_RANGES = [
    "{x} BETWEEN {y} - {low} AND {y} + {high}", "{x} < {y}", "{x} >= {y}", "{x} > {y} - {low} AND {x} <= {y}",
    "{x} >= {y} + {low}", "{y} BETWEEN {x} AND {x} + {high}", "{x} + {low} > {y} AND {x} - {high} <= {y}",
]  # fmt: skip
_DIFFERENCES = [
    "ABS({x} - {y}) <= {high}", "{x} - {y} < {high} AND {x} - {y} >= - {low}", "{y} - {x} <= {low}",
    "({x} - {y}) BETWEEN {low} AND {high}",
]  # fmt: skip
_DISTANCES: dict[Kind, list[str]] = {
    "int": ["0", "1", "2", "3"], "float": ["0.5", "1.0", "0"], "dec": ["0.25", "1.50", "1"],
    "real": ["CAST(0.1 AS DOUBLE)", "CAST(0.6 AS DOUBLE)", "0"], "date": ["1", "2", "0", "INTERVAL '1' DAY"],
    "time": ["INTERVAL '1' DAY", "INTERVAL '6' HOUR", "INTERVAL '690' MINUTE"],
}  # fmt: skip


def band(g: Drawing, left: tuple[str, Kind], other: tuple[str, Kind]) -> str:
    """A condition that a column is in a range around another one."""
    kinds = [left[1], other[1]]
    kind = next((kind for kind in ("time", "date", "real", "float", "dec") if kind in kinds), "int")
    low, high = g.pick(_DISTANCES[kind]), g.pick(_DISTANCES[kind])
    plain = kind == "time" or "INTERVAL" in low + high
    return g.pick([*_RANGES, *([] if plain else _DIFFERENCES)]).format(x=left[0], y=other[0], low=low, high=high)


#: Frames by one or two distances; the second one is not less than the first.
_FRAMES = [
    "RANGE BETWEEN {0} PRECEDING AND {1} FOLLOWING", "RANGE BETWEEN {0} PRECEDING AND CURRENT ROW",
    "RANGE {1} PRECEDING", "RANGE BETWEEN CURRENT ROW AND {0} FOLLOWING",
    "RANGE BETWEEN {1} PRECEDING AND {0} PRECEDING", "RANGE BETWEEN {0} FOLLOWING AND {1} FOLLOWING",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND {0} FOLLOWING", "RANGE BETWEEN {0} PRECEDING AND UNBOUNDED FOLLOWING",
    "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
]  # fmt: skip
_STEPS: dict[Kind, list[str]] = {
    "int": ["0", "1", "2"], "float": ["0.5", "1.25", "2"], "dec": ["0.25", "1.75", "2"],
    "date": ["INTERVAL '1' DAY", "INTERVAL '2' DAY"], "time": ["INTERVAL '6' HOUR", "INTERVAL '1' DAY"],
}  # fmt: skip


def range_frame(g: Drawing, relation: Relation) -> Relation:
    """Aggregates over a RANGE frame: the rows whose value is near that of the current row."""
    a = g.name("a")
    mine = scope(a, relation.columns)
    ordered = [column for column in mine if column[1] in _STEPS]
    if not ordered:
        return grouped(g, relation)
    (by, kind), way = g.pick(ordered), g.pick(["ASC", "DESC"]) + g.pick([" NULLS LAST", " NULLS FIRST"])
    most = len(_STEPS[kind]) - 1
    near, far = sorted((g.number(0, most), g.number(0, most)))
    frame = g.pick(_FRAMES).format(_STEPS[kind][near], _STEPS[kind][far])
    part = g.pick(["", *(f"PARTITION BY {text} " for text, _ in mine)])
    whole = [text for text, its in mine if its == "int"] or ["2"]
    x = g.pick(whole)
    calls: list[tuple[str, Kind]] = [
        (f"SUM({x})", "int"), ("COUNT(*)", "int"), (f"COUNT({by})", "int"), (f"MAX({by})", kind), (f"MIN({x})", "int"),
        (f"AVG({x})", "float"),
    ]  # fmt: skip
    call, made = g.pick(calls)
    items, columns = outputs(g, mine, 3)
    name = g.name("o")
    listed = [*items, (f"{call} OVER ({part}ORDER BY {by} {way} {frame})", name)]
    return Relation(*select(listed, named(relation, a), ("", "")), (*columns, Column(name, made)))


def final(g: Drawing) -> Relation | None:
    """EMIT FINAL: the groups of the windows that have ended; None without a stream whose rows are only inserted."""
    stream = _appended(g)
    if stream is None:
        return None
    ours, duck, after = g.pick([_tumbled, _tumbled, _session])(g, stream)
    a = g.name("a")
    columns = tuple(column for column in stream.columns if column.exact)
    mine = [(f"{a}.{column.name}", column.kind) for column in columns]
    keys = g.some(mine, 0, 2)
    end, start = g.name("k"), g.name("k")
    named_keys = [(f"{a}.window_end", end), *((text, g.name("k")) for text, _ in keys)]
    groups = [f"{a}.window_end", *(text for text, _ in keys)]
    if g.chance(40):
        named_keys.append((f"{a}.window_start", start))
        groups.insert(g.number(0, len(groups)), f"{a}.window_start")
    items, made = aggregates(g, mine, 2, AGGREGATES)
    having = f" HAVING {g.pick(['COUNT(*) > 1', 'COUNT(*) < 3', f'{a}.window_end > 4'])}" if g.chance(30) else ""
    tail = f" GROUP BY {', '.join(groups)}{having}"
    kinds = {text: kind for text, kind in mine}
    listed = [Column(name, kinds.get(text, "int")) for text, name in named_keys]
    limit = ""
    if g.chance(15):
        limit = f" ORDER BY {total_order(g, [(name, 'int') for _, name in named_keys])} LIMIT {g.number(1, 3)}"
    ended = f" WHERE {a}.window_end + {after} <= {NOW}"
    tails = f"{tail}{limit} EMIT FINAL", f"{ended}{tail}{limit}"
    return Relation(*select([*named_keys, *items], (f"{ours} AS {a}", f"{duck} AS {a}"), tails), (*listed, *made))


def _appended(g: Drawing) -> Relation | None:
    """A stream, or a view of the rows that enter a relation."""
    streams: Sequence[Relation] = [leaf for leaf in g.leaves if leaf.stream]
    if g.chance(20) and g.clock is None:
        view = with_last_change(g, g.pick(g.leaves))
        if view.ours.isalnum() and g.kept[-1].output in ("istream", "dstream"):
            return view
    return g.pick(streams) if streams else None


def _tumbled(g: Drawing, stream: Relation) -> tuple[str, str, int]:
    size, slide = g.number(1, 5), g.number(1, 4)
    kind = g.pick(["TUMBLE", "HOP", "CUMULATE"])
    if kind == "CUMULATE":
        size = slide * g.number(1, 3)
    lengths = f"{size}" if kind == "TUMBLE" else f"{slide}, {size}"
    step = {"TUMBLE": size, "HOP": slide, "CUMULATE": size}[kind]
    ends = f"generate_series({slide}, {size}, {slide})" if kind == "CUMULATE" else f"[{size}]"
    windows = f"(SELECT range * {step} AS window_start, unnest({ends}) AS long FROM range(-30, 60))"
    windows = f"(SELECT window_start, window_start + long AS window_end FROM {windows})"
    inside = "r.TS >= w.window_start AND r.TS < w.window_end"
    duck = f"(SELECT r.*, w.window_start, w.window_end FROM {stream.duck} AS r, {windows} AS w WHERE {inside})"
    return f"{kind}(TABLE {stream.ours}, DESCRIPTOR(TS), {lengths})", duck, 0


def _session(g: Drawing, stream: Relation) -> tuple[str, str, int]:
    """Sessions; a row at the end of a session still extends it, so a session is final one instant after its end."""
    gap = g.number(1, 3)
    part = g.pick(["", *(column.name for column in stream.columns if column.exact and column.name != "TS")])
    by = f"PARTITION BY {part} " if part else ""
    flag = f"CASE WHEN TS - lag(TS) OVER ({by}ORDER BY TS) <= {gap} THEN 0 ELSE 1 END"
    chain = f"sum(is_new) OVER ({by}ORDER BY TS RANGE UNBOUNDED PRECEDING) AS chain"
    chained = f"(SELECT *, {chain} FROM (SELECT *, {flag} AS is_new FROM {stream.duck}))"
    of = f"OVER (PARTITION BY {part + ', ' if part else ''}chain)"
    listed = ", ".join(column.name for column in stream.columns)
    duck = f"(SELECT {listed}, min(TS) {of} AS window_start, max(TS) {of} + {gap} AS window_end FROM {chained})"
    table = f"TABLE {stream.ours}{f' PARTITION BY {part}' if part else ''}"
    return f"SESSION({table}, DESCRIPTOR(TS), {gap})", duck, 1
