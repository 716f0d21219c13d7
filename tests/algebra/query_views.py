"""Views: a query under a name, as of a synchronisation point, or with the instant of the last change of its rows.

Queries in the notation of PIPES are views too, because the notation applies to a whole statement.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.algebra.query_leaves import last_rows, range_window, synchronised
from tests.algebra.query_parts import NOW, Column, Drawing, Kept, Relation, named, select
from tests.algebra.query_scalars import outputs, predicate, scope
from tests.algebra.query_shapes import AGGREGATES, aggregates


def viewed(g: Drawing, relation: Relation, *, sync: bool = True) -> Relation:
    """The relation under the name of a view; sometimes as it was at a synchronisation point."""
    if "(" not in relation.ours and "[" not in relation.ours:
        return relation
    name = g.name("V")
    text = relation.ours[1:-1] if relation.is_query else f"SELECT * FROM {relation.ours} AS v"
    columns = relation.columns if relation.is_query else tuple(c for c in relation.columns if c.name != "TS")
    duck = relation.duck if columns == relation.columns else _without_ts(relation, columns)
    g.views.append((name, text))
    seen = Relation(name, duck, columns)
    return synchronised(g, seen) if sync and g.chance(25) else seen


def _without_ts(relation: Relation, columns: Sequence[Column]) -> str:
    return f"(SELECT {', '.join(column.name for column in columns)} FROM {relation.duck})"


def with_last_change(g: Drawing, relation: Relation) -> Relation:
    """A view that is read with TS: of groups, of distinct rows, or of the rows that enter or leave a relation."""
    form = g.pick(["groups", "groups", "different", "istream", "dstream"])
    a = g.name("a")
    mine = scope(a, relation.columns)
    keys: list[str] = []
    if form == "groups":
        by, kind = g.pick(mine)
        selected, made = aggregates(g, mine, 2, [aggregate for aggregate in AGGREGATES if aggregate[3]])
        key = g.name("k")
        ours, duck = select([(by, key), *selected], named(relation, a), (f" GROUP BY {by}",) * 2)
        columns, keys = (Column(key, kind), *made), [key]
    else:
        listed, columns = outputs(g, mine, 3)
        where = f" WHERE {predicate(g, mine)}" if g.chance(40) else ""
        head = "SELECT DISTINCT" if form == "different" else "SELECT"
        ours, duck = select(listed, named(relation, a), (where, where), head)
        keys = [column.name for column in columns] if form == "different" else []
    text = ours[1:-1]
    if form in ("istream", "dstream"):
        items = ", ".join(f"v.{column.name}" for column in columns)
        text = f"SELECT {form.capitalize()}({items}) FROM {ours} AS v"
    return _kept(g, text, Kept(g.name("V"), duck, tuple(column.name for column in columns), tuple(keys), form), columns)


def _kept(g: Drawing, text: str, kept: Kept, columns: tuple[Column, ...]) -> Relation:
    g.views.append((kept.name, text))
    g.kept.append(kept)
    listed = ", ".join([*kept.columns, "TS"])
    duck = f"(SELECT {listed} FROM {kept.name} WHERE __at = {NOW})"
    seen = Relation(kept.name, duck, (*columns, Column("TS", "int")))
    return range_window(g, seen) if not kept.keys and g.chance(40) else seen


def pipes(g: Drawing) -> Relation | None:
    """A view over a stream with a window of PIPES, sometimes joined with a stream in the default window of one instant.

    None without append-only streams.
    """
    streams = [leaf for leaf in g.leaves if leaf.stream]
    if not streams:
        return None
    a, b = g.name("a"), g.name("a")
    first, second = g.pick(streams), g.pick(streams)
    window, duck = g.pick([_range, _range, _rows])(g, first)
    ours, theirs, mine = f"{first.ours} {window} AS {a}", f"{duck} AS {a}", scope(a, first.columns)
    if g.chance(30):
        mine += scope(b, second.columns)
        ours = f"{ours}, {second.ours} AS {b}"
        theirs = f"{theirs}, (SELECT * FROM {second.duck} WHERE TS >= {NOW}) AS {b}"
    items, columns = outputs(g, mine, 3)
    where = f" WHERE {predicate(g, mine)}" if g.chance() else ""
    texts = select(items, (ours, theirs), (where, where))
    name = g.name("V")
    g.views.append((name, texts[0][1:-1]))
    return Relation(name, texts[1], columns)


def _range(g: Drawing, stream: Relation) -> tuple[str, str]:
    """A range window in both dialects: a row is valid for `length` instants, its own included.

    With slide a, the window is as of the last one of the instants a-1, 2a-1, …
    """
    length, slide = g.number(1, 6), g.pick([1, 2, 3])
    now = NOW if slide == 1 else f"({NOW} - ({NOW} + 1) % {slide})"
    end = f" SLIDE {slide}" if slide > 1 else ""
    duck = f"(SELECT * FROM {stream.duck.replace(NOW, now)} WHERE TS > {now} - {length})"
    return f"WINDOW(RANGE {length}{end})", duck


def _rows(g: Drawing, stream: Relation) -> tuple[str, str]:
    rows, part = g.number(1, 3), g.pick(["", *(column.name for column in stream.columns[:-1])])
    by = f"PARTITION BY {part} " if part else ""
    return f"WINDOW({by}ROWS {rows})", last_rows(stream, by, rows, 1)
