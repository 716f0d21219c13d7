"""The first rows: of all, of each partition, of each key."""

from __future__ import annotations

from tests.algebra.query_parts import Column, Drawing, Relation, named, select
from tests.algebra.query_scalars import Scope, scope


def total_order(g: Drawing, mine: Scope) -> str:
    """An order by all columns, so that tied rows are equal."""
    first = g.number(0, len(mine) - 1)
    ordered = [*mine[first:], *mine[:first]]
    ways = ["ASC NULLS LAST", "DESC NULLS LAST", "ASC NULLS FIRST", "DESC NULLS FIRST"]
    return ", ".join(f"{text} {g.pick(ways)}" for text, _ in ordered)


def limited(g: Drawing, relation: Relation) -> Relation:
    """ORDER BY … LIMIT … OFFSET; all columns are kept."""
    a = g.name("a")
    mine = scope(a, relation.columns)
    items = [(text, g.name("c")) for text, _ in mine]
    columns = tuple(Column(name, kind) for (_, name), (_, kind) in zip(items, mine, strict=True))
    offset = f" OFFSET {g.number(1, 2)}" if g.chance(25) else ""
    tail = f" ORDER BY {total_order(g, mine)} LIMIT {g.number(1, 4)}{offset}"
    ours, duck = select(items, named(relation, a), (tail, tail))
    return Relation(ours, duck, columns)


def ranked(g: Drawing, relation: Relation) -> Relation:
    """The first rows of each partition, by a rank that an outer query compares."""
    a, b, rank = g.name("a"), g.name("a"), g.name("r")
    mine = scope(a, relation.columns)
    part = g.pick(["", *(text for text, _ in mine)])
    method = g.pick(["ROW_NUMBER", "RANK", "DENSE_RANK"])
    order = (
        total_order(g, mine) if method == "ROW_NUMBER" else f"{g.pick(mine)[0]} {g.pick(['ASC', 'DESC'])} NULLS LAST"
    )
    over = f"{method}() OVER ({f'PARTITION BY {part} ' if part else ''}ORDER BY {order})"
    items = [(text, g.name("c")) for text, _ in mine]
    inner = select([*items, (over, rank)], named(relation, a), ("", ""))
    columns = [Column(name, kind) for (_, name), (_, kind) in zip(items, mine, strict=True)]
    top = g.number(1, 3)
    test = g.pick([f"{b}.{rank} <= {top}", f"{b}.{rank} = {top}", f"{b}.{rank} < {top + 1}"])
    columns = [*columns, *([Column(rank, "int")] if g.chance() else [])]
    outside = [(f"{b}.{column.name}", column.name) for column in columns]
    ours, duck = select(outside, (f"{inner[0]} AS {b}", f"{inner[1]} AS {b}"), (f" WHERE {test}",) * 2)
    return Relation(ours, duck, tuple(columns))


def qualified(g: Drawing, relation: Relation) -> Relation:
    """QUALIFY: rows selected by their number in the partition, which is a call in QUALIFY or a named select item."""
    a = g.name("a")
    mine = scope(a, relation.columns)
    part = g.pick(["", *(text for text, _ in mine)])
    over = f"({f'PARTITION BY {part} ' if part else ''}ORDER BY {total_order(g, mine)})"
    items = [(text, g.name("c")) for text, _ in mine]
    columns = [Column(name, kind) for (_, name), (_, kind) in zip(items, mine, strict=True)]
    test = g.pick([f"<= {g.number(1, 3)}", f"= {g.number(1, 2)}", "> 1"])
    if g.chance():
        rank = g.name("r")
        tail = f" QUALIFY {rank} {test}"
        items, columns = [*items, (f"ROW_NUMBER() OVER {over}", rank)], [*columns, Column(rank, "int")]
    else:
        tail = f" QUALIFY ROW_NUMBER() OVER {over} {test}"
    ours, duck = select(items, named(relation, a), (tail, tail))
    return Relation(ours, duck, tuple(columns))


def distinct_on(g: Drawing, relation: Relation) -> Relation:
    """DISTINCT ON: the first row of each key in a total order."""
    a = g.name("a")
    mine = scope(a, relation.columns)
    keys = [text for text, _ in g.some(mine, 1, 2)]
    rest: Scope = [column for column in mine if column[0] not in keys]
    ways = ["ASC NULLS LAST", "DESC NULLS FIRST"]
    first = ", ".join(f"{key} {g.pick(ways)}" for key in keys)
    order = f"{first}, {total_order(g, rest)}" if rest else first
    items = [(text, g.name("c")) for text, _ in mine]
    columns = tuple(Column(name, kind) for (_, name), (_, kind) in zip(items, mine, strict=True))
    head, tail = f"SELECT DISTINCT ON ({', '.join(keys)})", f" ORDER BY {order}"
    ours, duck = select(items, named(relation, a), (tail, tail), head)
    return Relation(ours, duck, columns)
