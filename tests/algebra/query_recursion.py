"""WITH RECURSIVE over a relation: paths between the values of two columns, or walks of bounded length.

A rule reads the recursive relation once: DuckDB gives a rule that reads it twice only the rows of the last iteration.
"""

from __future__ import annotations

from tests.algebra.query_joins import named_query
from tests.algebra.query_parts import Column, Drawing, Relation
from tests.algebra.query_scalars import predicate, scope
from tests.algebra.query_shapes import project


def recursive(g: Drawing, relation: Relation) -> Relation:
    """Paths or walks along the rows of a relation; a projection of it if it has no integer column."""
    below, relation = relation, named_query(relation)
    ends = relation.of("int")
    if not ends:
        return project(g, below)
    start, end = g.pick(ends).name, g.pick(ends).name
    w, r, a = g.name("w"), g.name("r"), g.name("a")
    first = f" WHERE {predicate(g, scope(a, relation.columns))}" if g.chance(30) else ""
    more = f" AND {predicate(g, scope(a, relation.columns))}" if g.chance(30) else ""
    base, step = g.pick([
        (f"{a}.{start}, {a}.{end}", f"{r}.x, {a}.{end} FROM {r} JOIN {w} AS {a} ON {r}.y = {a}.{start}{more}"),
        (f"{a}.{start}, 0", f"{a}.{end}, {r}.y + 1 FROM {r} JOIN {w} AS {a} ON {r}.x = {a}.{start}{more} "
                            f"WHERE {r}.y < {g.number(1, 3)}"),
        (f"{a}.{start}, {a}.{end}", f"{r}.y, {r}.x FROM {r}, {w} AS {a} WHERE {r}.x = {a}.{start}{more}"),
    ])  # fmt: skip
    x, y = g.name("x"), g.name("x")
    rules = f"{r} (x, y) AS (SELECT {base} FROM {w} AS {a}{first} UNION SELECT {step})"
    texts = (
        f"(WITH RECURSIVE {w} AS {text}, {rules} SELECT {r}.x AS {x}, {r}.y AS {y} FROM {r})"
        for text in (relation.ours, relation.duck)
    )
    return Relation(*texts, (Column(x, "int"), Column(y, "int")))
