"""MATCH_RECOGNIZE combined with the other operators.

DuckDB has no row patterns, but its regular expressions have the same preferences: the first alternative, and as many
repetitions as possible or, if reluctant, as few as possible. The variables A and B are conditions on a row, C is any
row. For DuckDB a partition becomes a text with one letter for each row, in the order of the rows. The letter encodes
which conditions the row satisfies; a variable becomes a class of letters.
"""

from __future__ import annotations

from tests.algebra.query_parts import Column, Drawing, Relation, named, select
from tests.algebra.query_scalars import ORDERED, predicate, scope
from tests.algebra.query_shapes import project
from tests.algebra.query_tops import total_order

_LETTERS = {"A": "[bd]", "B": "[cd]", "C": "[abcd]"}
_TIMES = ["", "", "*", "+", "?", "{2}", "{1,2}", "*?", "+?", "??", "{1,2}?"]


def matched(g: Drawing, relation: Relation) -> Relation:
    """The matches of a pattern in the partitions of a relation; a projection of it if no column has an order."""
    a = g.name("a")
    mine = [item for item in scope(a, relation.columns) if item[1] in ORDERED][:4]
    if not mine:
        return project(g, relation)
    items = [(text, g.name("c")) for text, _ in mine]
    columns = [Column(name, kind) for (_, name), (_, kind) in zip(items, mine, strict=True)]
    tests = [g.pick([predicate(g, scope(a, relation.columns)), f"{g.pick(mine)[0]} IS NOT NULL"]) for _ in range(2)]
    flags = [(test, g.name("f")) for test in tests]
    below = select([*items, *flags], named(relation, a), ("", ""))
    order = total_order(g, [(column.name, column.kind) for column in columns])
    part, shown = g.pick([[], *([column] for column in columns)]), g.pick(columns)
    ours, theirs = _pattern(g)
    measures = [Column(g.name("n"), "int"), Column(g.name("o"), shown.kind), Column(g.name("o"), shown.kind)]
    n, first, last = (column.name for column in measures)
    by = f"PARTITION BY {part[0].name} " if part else ""
    define = "DEFINE " + ", ".join(f"{v} AS {f}" for v, (_, f) in zip("AB", flags, strict=True) if v in ours)
    name, m = shown.name, g.name("a")
    every = g.chance()
    skip = "AFTER MATCH SKIP TO NEXT ROW " if every else ""
    if not every:
        measures = [measures[0], Column(g.name("o"), "int")]
    extra = f"FIRST({name}) AS {first}, LAST({name}) AS {last}" if every else f"MATCH_NUMBER() AS {measures[1].name}"
    found = f"MEASURES COUNT(*) AS {n}, {extra} ONE ROW PER MATCH {skip}PATTERN ({ours}) {define}"
    listed = [*(column.name for column in part), *(column.name for column in measures)]
    head = ", ".join(f"{m}.{name}" for name in listed)
    text = f"(SELECT {head} FROM {below[0]} MATCH_RECOGNIZE ({by}ORDER BY {order} {found}) AS {m})"
    letter = f"chr(97 + ({flags[0][1]} IS TRUE)::INT + 2 * ({flags[1][1]} IS TRUE)::INT)"
    keys = "".join(f"{column.name}, " for column in part)
    group = f" GROUP BY {part[0].name}" if part else ""
    rows = (
        f"SELECT {keys}string_agg({letter}, '' ORDER BY {order}) AS s, list({name} ORDER BY {order}) AS v "
        f"FROM {below[1]}{group}"
    )
    return Relation(text, _duck(rows, keys, theirs, [column.name for column in measures], every), (*part, *measures))


def _duck(rows: str, keys: str, pattern: str, names: list[str], every: bool) -> str:
    """DuckDB's query for the match that begins at each row (`every`), or for matches that do not overlap."""
    if every:
        n, first, last = names
        at = f"SELECT *, unnest(range(1, length(s) + 1)) AS i FROM ({rows})"
        each = f"SELECT *, length(regexp_extract(substr(s, i), '^(?:{pattern})')) AS n FROM ({at})"
        return f"(SELECT {keys}n AS {n}, v[i] AS {first}, v[i + n - 1] AS {last} FROM ({each}) WHERE n > 0)"
    n, number = names
    all_ = f"SELECT *, regexp_extract_all(s, '{pattern}') AS all_ FROM ({rows})"
    each = f"SELECT *, unnest(range(1, len(all_) + 1)) AS i FROM ({all_})"
    return f"(SELECT {keys}length(all_[i]) AS {n}, i AS {number} FROM ({each}))"


def _pattern(g: Drawing) -> tuple[str, str]:
    """A pattern that matches no empty sequence, and the regular expression for it."""
    parts = [_part(g) for _ in range(g.number(0, 2))]
    variable = g.pick(["A", "B"])
    parts.insert(g.number(0, len(parts)), (variable, _LETTERS[variable]))
    return " ".join(ours for ours, _ in parts), "".join(theirs for _, theirs in parts)


def _part(g: Drawing) -> tuple[str, str]:
    """A variable, or alternatives of one to three variables each, with a quantifier."""
    times = g.pick(_TIMES)
    first, second = g.pick(["A", "B", "C"]), g.pick(["A", "B", "C"])
    if g.chance(60):
        return f"{first}{times}", f"{_LETTERS[first]}{times}"
    one, two, three = f"{first}", f"{first} {second}", f"{second} {second} {first}"
    ways = g.pick([[one, second], [one, two], [two, one], [two], [three, one, two]])
    regular = ("".join(_LETTERS[variable] for variable in way.split()) for way in ways)
    return f"({' | '.join(ways)}){times}", f"(?:{'|'.join(regular)}){times}"
