"""A table and the statements that change it; its history is DuckDB's table after each of them."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
from hypothesis import strategies as st

from tests.algebra.query_leaves import END, FOREVER, KINDS, NULLABLE, SHAPES, TYPED_SHAPES, TYPES
from tests.algebra.query_parts import NOW, Column, Drawing, Kind, Relation
from tests.algebra.query_scalars import LITERALS, Scope, predicate, value

NAME = "Tab"


@dataclass(frozen=True)
class Table:
    """A table with a primary key, and the statements about it with the instants of their execution."""

    columns: tuple[str, ...]
    nullable: tuple[str, ...]
    keys: tuple[str, ...]
    statements: tuple[tuple[int, str], ...]

    @property
    def sql(self) -> str:
        """The statement that declares it."""
        listed = ", ".join(f"{c} {TYPES[c]}{'' if c in self.nullable else ' NOT NULL'}" for c in self.columns)
        return f"CREATE TABLE {NAME} ({listed}, PRIMARY KEY ({', '.join(self.keys)}))"

    def leaf(self) -> Relation:
        """The table as an item of FROM."""
        columns = tuple(Column(name, KINDS[name]) for name in self.columns)
        now = f"__from <= {NOW} AND {NOW} < __to"
        return Relation(NAME, f"(SELECT {', '.join(self.columns)} FROM H{NAME} WHERE {now})", columns)

    def load(self, database: duckdb.DuckDBPyConnection) -> list[int]:
        """Loads the history into a table of DuckDB; returns the numbers of the statements that must be refused.

        Keys are checked here, because DuckDB's indexes refuse some correct statements.
        """
        listed = ", ".join(f"{name} {TYPES[name]}" for name in self.columns)
        database.execute(f"CREATE OR REPLACE TEMP TABLE {NAME} ({listed})")
        database.execute(f"CREATE OR REPLACE TEMP TABLE H{NAME} ({listed}, __from BIGINT, __to BIGINT)")
        ends = [at for at, _ in self.statements[1:]] + [FOREVER]
        refused = []
        for number, ((at, statement), end) in enumerate(zip(self.statements, ends, strict=True)):
            database.execute("BEGIN")
            database.execute(statement)
            if self._broken(database):
                refused.append(number)
                database.execute("ROLLBACK")
            else:
                database.execute("COMMIT")
            database.execute(f"INSERT INTO H{NAME} SELECT *, {at}, {end} FROM {NAME}")
        return refused

    def _broken(self, database: duckdb.DuckDBPyConnection) -> bool:
        """Whether a key occurs twice, or a NULL is in a NOT NULL column."""
        keys = ", ".join(self.keys)
        filled = [name for name in self.columns if name in self.keys or name not in self.nullable]
        nulls = " OR ".join(f"{name} IS NULL" for name in filled)
        doubles = f"SELECT 1 FROM {NAME} GROUP BY {keys} HAVING count(*) > 1"
        return bool(database.execute(f"{doubles} UNION ALL SELECT 1 FROM {NAME} WHERE {nulls}").fetchall())


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """A table with some statements at ascending instants."""
    columns = draw(st.sampled_from([*SHAPES, TYPED_SHAPES[0], TYPED_SHAPES[2]]))
    nullable = draw(st.sampled_from(NULLABLE))
    keys = (columns[0],) if draw(st.booleans()) else columns[:2]
    g = Drawing(draw, ())
    instants = sorted(draw(st.sets(st.integers(0, END - 2), min_size=1, max_size=6)))
    statements = [(at, _statement(g, columns, keys, first=at == instants[0])) for at in instants]
    return Table(columns, tuple(name for name in nullable if name not in keys), keys, tuple(statements))


def _statement(g: Drawing, columns: tuple[str, ...], keys: tuple[str, ...], *, first: bool) -> str:
    mine: Scope = [(name, KINDS[name]) for name in columns]
    forms = [_inserted, _inserted, _copied, _updated, _updated, _deleted]
    return _inserted(g, mine, keys) if first or g.chance(25) else g.pick(forms)(g, mine, keys)


def _inserted(g: Drawing, mine: Scope, _: tuple[str, ...]) -> str:
    named = mine if g.chance(80) else mine[: g.number(1, len(mine))]
    rows = ", ".join(f"({', '.join(_given(g, name, kind) for name, kind in named)})" for _ in range(g.number(1, 3)))
    return f"INSERT INTO {NAME} ({', '.join(name for name, _ in named)}) VALUES {rows}"


def _given(g: Drawing, name: str, kind: Kind) -> str:
    if name in ("k", "n"):
        return str(g.number(0, 3))
    return g.pick([*LITERALS[kind][:2], "NULL" if g.chance(15) else LITERALS[kind][0]])


def _copied(g: Drawing, mine: Scope, keys: tuple[str, ...]) -> str:
    items = [value(g, mine, kind, 0) if name not in keys else name for name, kind in mine]
    at = [name for name, _ in mine].index(keys[0])
    items[at] = f"{keys[0]} || 'c'" if mine[at][1] == "str" else f"{keys[0]} + {g.number(1, 3)}"
    where = f" WHERE {predicate(g, mine)}" if g.chance() else ""
    return f"INSERT INTO {NAME} SELECT {', '.join(items)} FROM {NAME}{where}"


def _updated(g: Drawing, mine: Scope, keys: tuple[str, ...]) -> str:
    set_ = [column for column in mine if column[0] not in keys or g.chance(25)] or mine
    name, kind = g.pick(set_)
    new = f"{name} + 1" if kind == "int" and g.chance(40) else value(g, mine, kind)
    where = f" WHERE {predicate(g, mine)}" if g.chance(70) else ""
    return f"UPDATE {NAME} SET {name} = {new}{where}"


def _deleted(g: Drawing, mine: Scope, keys: tuple[str, ...]) -> str:
    least = f"{keys[0]} = (SELECT MIN({keys[0]}) FROM {NAME})"
    return f"DELETE FROM {NAME} WHERE {least if g.chance(30) else predicate(g, mine)}"
