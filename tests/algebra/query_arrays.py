"""Arrays and literal rows: ARRAY_AGG and functions of its result, UNNEST, VALUES."""

from __future__ import annotations

from tests.algebra.query_parts import Column, Drawing, Kind, Relation, named, select
from tests.algebra.query_scalars import LITERALS, outputs, predicate, scope, value


def unnested(g: Drawing, outer: Relation) -> Relation:
    """Each row with each element of an array of its columns."""
    a, u, x = g.name("a"), g.name("u"), g.name("x")
    mine = scope(a, outer.columns)
    items = ", ".join(value(g, mine, "int", 0) for _ in range(g.number(1, 3)))
    if g.chance(25):
        return _numbers(g, outer)
    inner, arr = g.name("a"), g.name("arr")
    selected, columns = outputs(g, [(text, kind) for text, kind in mine] + [(f"{u}.{x}", "int")], 3)
    kept = [(f"{inner}.{column.name}", column.name) for column in outer.columns if column.exact]
    listed = items.replace(f"{a}.", f"{inner}.")
    tables = []
    for table, array in zip(named(outer, inner), (f"ARRAY[{listed}]", f"[{listed}]"), strict=True):
        derived = select([*kept, (array, arr)], (table, table), ("", ""))[0]
        tables.append(f"{derived} AS {a} CROSS JOIN UNNEST({a}.{arr}) AS {u}({x})")
    ours, duck = select(selected, (tables[0], tables[1]), ("", ""))
    if g.chance(25):  # the same in the select list
        listed_too = [(text.replace(f"{u}.{x}", f"UNNEST(ARRAY[{items}])"), name) for text, name in selected]
        if sum(text.count("UNNEST") for text, _ in listed_too) == 1:
            ours = select(listed_too, (named(outer, a)[0],) * 2, ("", ""))[0]
    return Relation(ours, duck, columns, outer.stream)


def _numbers(g: Drawing, outer: Relation) -> Relation:
    """Each row with each number up to one of its columns."""
    a, u, x = g.name("a"), g.name("u"), g.name("x")
    mine = scope(a, outer.columns)
    first, last = str(g.number(-1, 1)), f"LEAST({value(g, mine, 'int', 0)}, 3)"
    selected, columns = outputs(g, [*mine, (f"{u}.{x}", "int")], 3)
    duckdbs = f"UNNEST(generate_series({first}, CAST({last} AS BIGINT)))"  # DuckDB's SUM is a HUGEINT, which it refuses
    calls = f"generate_series({first}, {last})", duckdbs
    tables = [f"{table} CROSS JOIN {call} AS {u}({x})" for table, call in zip(named(outer, a), calls, strict=True)]
    ours, duck = select(selected, (tables[0], tables[1]), ("", ""))
    return Relation(ours, duck, columns, outer.stream)


def aggregated(g: Drawing, relation: Relation) -> Relation:
    """ARRAY_AGG of each group in a total order: the array, its elements, or functions of it."""
    a, b, key, arr = g.name("a"), g.name("a"), g.name("k"), g.name("arr")
    mine = scope(a, relation.columns)
    by, by_kind = g.pick(mine)
    kind: Kind = g.pick(["int", "int", "str", "real"])
    x = value(g, mine, kind, 1)
    if f"{a}." not in x:
        x, kind = by, by_kind
    way = g.pick(["NULLS FIRST", "DESC NULLS LAST", "NULLS LAST"])
    # DuckDB turns ANY into a subquery, and does not recognise two equal ones
    distinct = "DISTINCT " if g.chance(20) and "ANY (" not in x else ""
    made = f"ARRAY_AGG({distinct}{x} ORDER BY {x} {way})"
    if g.chance(25):
        made += f" FILTER (WHERE {predicate(g, mine)})"
    inner = select([(by, key), (made, arr)], named(relation, a), (f" GROUP BY {by}",) * 2)
    return _read(g, inner, b, Column(key, by_kind), Column(arr, kind))


def _read(g: Drawing, inner: tuple[str, str], b: str, key: Column, array: Column) -> Relation:
    kept = (f"{b}.{key.name}", key.name)
    form, name = g.pick(["array", "elements", "elements", "functions"]), g.name("c")
    tables = f"{inner[0]} AS {b}", f"{inner[1]} AS {b}"
    array_column = f"{b}.{array.name}"
    if form == "elements":
        u, x = g.name("u"), g.name("x")
        ours, duck = (f"{table} CROSS JOIN UNNEST({array_column}) AS {u}({x})" for table in tables)
        return Relation(*select([kept, (f"{u}.{x}", name)], (ours, duck), ("", "")), (key, Column(name, array.kind)))
    if form == "functions":
        nth, length = g.number(-1, 2) or 1, g.name("c")
        columns = key, Column(name, array.kind), Column(length, "int")
        listed = [kept, (f"{array_column}[{nth}]", name), (f"CARDINALITY({array_column})", length)]
        ours = select(listed, tables, ("", ""))[0]
        return Relation(ours, select([*listed[:2], (f"len({array_column})", length)], tables, ("", ""))[1], columns)
    ours, duck = select([kept, (array_column, name)], tables, ("", ""))
    return Relation(ours, duck, (key, Column(name, "list", exact=False)))


def given_rows(g: Drawing) -> Relation:
    """VALUES: literal rows; sometimes the second one consists of NULLs."""
    kinds: list[Kind] = [g.pick(["int", "int", "str", "float"]) for _ in range(g.number(1, 3))]
    names = [g.name("v") for _ in kinds]
    rows = [", ".join(g.pick(LITERALS[kind][:3]) for kind in kinds) for _ in range(g.number(1, 3))]
    if len(rows) > 1 and g.chance(40):
        rows[1] = ", ".join("NULL" for _ in kinds)
    text = f"(SELECT * FROM (VALUES {', '.join(f'({row})' for row in rows)}) AS {g.name('t')}({', '.join(names)}))"
    return Relation(text, text, tuple(Column(name, kind) for name, kind in zip(names, kinds, strict=True)))
