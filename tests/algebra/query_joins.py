"""Joins of any kind and their relatives: subqueries in WHERE and in the select list, LATERAL."""

from __future__ import annotations

from dataclasses import replace

from tests.algebra.query_parts import Column, Drawing, Kind, Relation, named, select
from tests.algebra.query_scalars import Scope, comparison, outputs, predicate, scope, value


def join(g: Drawing, left: Relation, right: Relation) -> Relation:
    """A join of two relations; its condition usually has an equality."""
    a, b = g.name("a"), g.name("a")
    mine, theirs = scope(a, left.columns), scope(b, right.columns)
    kind = g.pick(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", ",", "CROSS JOIN"])
    on = condition(g, mine, theirs)
    items, columns = outputs(g, [*mine, *theirs], 4)
    outer = kind in ("LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
    where = predicate(g, [*mine, *theirs]) if g.chance(30) else ""
    if kind == ",":
        where = f"{on} AND {where}" if where else on
    sides = zip(named(left, a), named(right, b), strict=True)
    end = "" if kind in (",", "CROSS JOIN") else f" ON {on}"
    ours, duck = select(items, tuple(f"{x} {kind} {y}{end}" for x, y in sides), _where(where))
    return Relation(ours, duck, columns, left.stream and right.stream and not outer)


def condition(g: Drawing, mine: Scope, theirs: Scope) -> str:
    """A join condition between two scopes."""
    parts = [equality(g, mine, theirs)] if g.chance(75) else []
    if not parts or g.chance(35):
        parts.append(g.pick([comparison(g, mine, theirs, 1), predicate(g, [*mine, *theirs])]))
    return " AND ".join(parts)


def equality(g: Drawing, mine: Scope, theirs: Scope) -> str:
    """An equality of two columns of one kind, or of expressions."""
    kinds: list[Kind] = sorted({kind for _, kind in mine} & {kind for _, kind in theirs}) or ["int"]
    kind = g.pick(kinds)
    depth = 1 if g.chance(20) else 0
    pick = [[text for text, its in side if its == kind] for side in (mine, theirs)]
    if depth or not all(pick):
        return f"{value(g, mine, kind, depth)} = {value(g, theirs, kind, depth)}"
    return f"{g.pick(pick[0])} = {g.pick(pick[1])}"


def natural(g: Drawing, left: Relation, right: Relation) -> Relation:
    """NATURAL JOIN and USING, which merge columns of the same name."""
    a, b, x, y, both = g.name("a"), g.name("a"), g.name("a"), g.name("a"), g.name("j")
    mine, theirs = scope(a, left.columns), scope(b, right.columns)
    kind = g.pick(sorted({kind for _, kind in mine} & {kind for _, kind in theirs}) or ["int"])
    sides = []
    for relation, alias, within in ((left, a, mine), (right, b, theirs)):
        other, its = g.pick(within)
        listed = [(value(g, within, kind, 0), both), (other, g.name("c"))]
        sides.append((select(listed, named(relation, alias), ("", "")), Column(listed[1][1], its)))
    word = g.pick(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
    before, after = ("NATURAL ", "") if g.chance(70) else ("", f" USING ({both})")
    (lefts, left_column), (rights, right_column) = sides
    tables = tuple(f"{lefts[at]} AS {x} {before}{word} {rights[at]} AS {y}{after}" for at in (0, 1))
    columns = Column(both, kind), left_column, right_column
    end = g.pick(["", "", f" WHERE {both} IS NOT NULL"])
    ours, duck = select([(column.name, column.name) for column in columns], tables, (end, end))
    return Relation(ours, duck, columns)


def _where(text: str) -> tuple[str, str]:
    return (f" WHERE {text}", f" WHERE {text}") if text else ("", "")


def self_join(g: Drawing, relation: Relation) -> Relation:
    """A relation joined with itself, named once by WITH."""
    with_ts = "TS" in relation.ours
    relation = named_query(relation)
    w, a, b = g.name("w"), g.name("a"), g.name("a")
    both = [*scope(a, relation.columns), *scope(b, relation.columns)]
    items, columns = outputs(g, both, 4)
    on = condition(g, both[: len(both) // 2], both[len(both) // 2 :])
    kind = g.pick(["JOIN", "LEFT JOIN", "FULL JOIN"])
    test = f"USING ({g.pick(relation.columns).name})" if g.chance(20) and not with_ts else f"ON {on}"
    body = f"{w} AS {a} {kind} {w} AS {b} {test}"
    ours, duck = select(items, (body, body), ("", ""))
    texts = [
        f"(WITH {w} AS {relation_text} {text[1:]}"
        for relation_text, text in ((relation.ours, ours), (relation.duck, duck))
    ]
    return Relation(texts[0], texts[1], columns)


def _without_ts(relation: Relation) -> Relation:
    """The relation with the columns of `*`, which leaves out the TS of a synchronised relation."""
    columns = tuple(column for column in relation.columns if column.name != "TS")
    listed = ", ".join(column.name for column in columns)
    return Relation(f"(SELECT {listed} FROM {relation.ours} AS x)", f"(SELECT {listed} FROM {relation.duck})", columns)


def named_query(relation: Relation) -> Relation:
    """The relation as a query in parentheses, which WITH can name."""
    if "(" in relation.ours and not relation.is_query:
        relation = _without_ts(relation)
    if relation.is_query:
        return relation
    listed = ", ".join(column.name for column in relation.columns)
    return replace(relation, ours=f"(SELECT {listed} FROM {relation.ours} AS x)")


def filtered_by_subquery(g: Drawing, outer: Relation, inner: Relation) -> Relation:
    """WHERE with IN, EXISTS, ANY, ALL or a scalar subquery, correlated or not, sometimes inside AND or OR."""
    a, b = g.name("a"), g.name("a")
    mine, theirs = scope(a, outer.columns), scope(b, inner.columns)
    test = _subquery_test(g, mine, theirs, named(inner, b))
    if g.chance(30):
        other, word = predicate(g, mine), g.pick(["AND", "OR"])
        test = tuple(f"({side} {word} {other})" for side in test)
    items, columns = outputs(g, mine, 4)
    if g.chance(25):
        name = g.name("c")
        ours, duck = ([*items, (text, name)] for text in test)
        columns = (*columns, Column(name, "bool"))
        end: tuple[str, str] = ("", "")
    else:
        ours, duck, end = items, items, tuple(f" WHERE {text}" for text in test)
    tables = named(outer, a)
    return Relation(select(ours, tables, end)[0], select(duck, tables, end)[1], columns)


def _subquery_test(g: Drawing, mine: Scope, theirs: Scope, tables: tuple[str, str]) -> tuple[str, str]:
    where = f" WHERE {_correlation(g, mine, theirs)}" if g.chance(60) else ""
    kinds: list[Kind] = sorted({kind for _, kind in theirs} - {"bool"}) or ["int"]
    kind = g.pick(kinds)
    x, y = value(g, mine, kind, 0), value(g, theirs, kind, 0)
    operator = g.pick(["=", "<", ">=", "<>"])
    before, item = g.pick([
        (f"{x} IN ", y), (f"{x} NOT IN ", y), ("EXISTS ", "1"), ("NOT EXISTS ", "1"), (f"{x} {operator} ANY ", y),
        (f"{x} {operator} ALL ", y), (f"{x} {operator} ", f"MAX({y})"), (f"{x} {operator} ", f"MIN({y})"),
        ("0 < ", "COUNT(*)"), ("1 >= ", f"COUNT(DISTINCT {y})"),
    ])  # fmt: skip
    ours, duck = (f"{before}(SELECT {item} FROM {table}{where})" for table in tables)
    return ours, duck


def _correlation(g: Drawing, mine: Scope, theirs: Scope) -> str:
    parts = [equality(g, theirs, mine) if g.chance(75) else comparison(g, theirs, mine)]
    if g.chance(30):
        parts.append(g.pick([predicate(g, theirs, 0), comparison(g, theirs, mine)]))
    return " AND ".join(parts)


_SCALARS: list[tuple[str, Kind]] = [("COUNT(*)", "int"), ("SUM({n})", "int"), ("MAX({n})", "int"), ("MIN({n})", "int")]


def scalar_subquery(g: Drawing, outer: Relation, inner: Relation) -> Relation:
    """A scalar subquery in the select list."""
    a, b = g.name("a"), g.name("a")
    mine, theirs = scope(a, outer.columns), scope(b, inner.columns)
    text, kind = g.pick(_SCALARS)
    item = text.format(n=value(g, theirs, "int"))
    where = f" WHERE {_correlation(g, mine, theirs)}" if g.chance(70) else ""
    items, columns = outputs(g, mine, 2)
    name, form = g.name("c"), "({})"
    if g.chance(20):
        item, kind, form = value(g, theirs, "int"), "int", "array_length(ARRAY({}))"
    texts = []
    for table, outside in zip(named(inner, b), named(outer, a), strict=True):
        listed = [*items, (form.format(f"SELECT {item} FROM {table}{where}"), name)]
        texts.append(select(listed, (outside, outside), ("", ""))[0])
    return Relation(texts[0], texts[1], (*columns, Column(name, kind)))


def lateral(g: Drawing, outer: Relation, inner: Relation) -> Relation:
    """A subquery in FROM that reads an earlier item: its rows, or one row of aggregates."""
    a, b, c = g.name("a"), g.name("a"), g.name("a")
    mine, theirs = scope(a, outer.columns), scope(b, inner.columns)
    text, kind = g.pick(_SCALARS)
    one_row = g.chance()
    item = text.format(n=value(g, theirs, "int")) if one_row else value(g, theirs, "int")
    name, where = g.name("x"), _correlation(g, mine, theirs)
    items, columns = outputs(g, [*mine, (f"{c}.{name}", "int")], 3)
    sides = zip(named(outer, a), named(inner, b), strict=True)
    word, end = g.pick([(",", ""), (",", ""), (" CROSS JOIN", ""), (" LEFT JOIN", " ON TRUE")])
    tables = tuple(f"{x}{word} LATERAL (SELECT {item} AS {name} FROM {y} WHERE {where}) AS {c}{end}" for x, y in sides)
    ours, duck = select(items, tables, ("", ""))
    return Relation(ours, duck, columns)
