"""INSERT, UPDATE and DELETE evaluated over the relations of one instant."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import singledispatch

import pyarrow as pa
from sqlglot import exp

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import ROW_NUMBER, Table
from dsms.registration.table_targets import check_values, column_of, columns_of, table_of
from dsms.tables.effect import (
    Content,
    Effect,
    Key,
    divided,
    duplicate,
    first_of_keys,
    inserted,
    key_rows,
    removed,
    replaced,
)
from dsms.tables.question import Asked, Question, names_of, question_of

Write = st.Insert | st.Update | st.Delete
#: Gives the rows of a question.
Rows = Callable[[Question], pa.Table]
#: What the rows that an INSERT would add are called where ON CONFLICT changes others instead.
_EXCLUDED = "excluded"


def names_read(statement: Write, catalog: Catalog) -> list[str]:
    """The names of the relations that a statement reads, its own table included."""
    table = table_of(statement.table, catalog)
    if isinstance(statement, st.Insert):
        itself = statement.returning or (statement.conflict is not None and statement.conflict.changes)
        return list(dict.fromkeys([*names_of(statement.rows, catalog), *([table.name] if itself else [])]))
    values = [value for _, value in statement.changes] if isinstance(statement, st.Update) else []
    return names_of(_selected(table, values, statement), catalog)


@singledispatch
def effects_of(statement: Write, catalog: Catalog, rows: Rows, content: Content) -> tuple[Effect, ...]:
    """The effects of a statement, on keys of which no two have one in common; nothing is written. `rows` gives those of
    a question over objects of `names_read`."""
    raise TypeError(statement)


@effects_of.register
def _(statement: st.Insert, catalog: Catalog, rows: Rows, content: Content) -> tuple[Effect, ...]:
    table = table_of(statement.table, catalog)
    names = columns_of(statement, table)
    selected = rows(question_of(_without_defaults(statement.rows), catalog))
    check_values(statement.table, names, selected.num_columns)
    given = in_order(table, selected.rename_columns(names))
    if statement.conflict is None:
        return (inserted(table, given, content, set()),)
    _check_keys(statement.conflict, table)
    fresh, held = divided(table, given, content)
    if not statement.conflict.changes:
        return (inserted(table, first_of_keys(table, fresh), content, set()),)
    seen = set[Key]()
    added = inserted(table, fresh, content, seen)
    changed = _changed(statement.conflict, table, held, catalog, rows, content)
    if taken := seen.intersection(key_rows(changed.upserts.select(list(table.keys)))):
        raise duplicate(table, min(taken, key=repr))
    return added, changed


def _check_keys(conflict: st.Conflict, table: Table) -> None:
    """Raises SqlError unless the keys of a conflict are the primary key; it need not name any."""
    named = {key.text.lower() for key in conflict.keys}
    if named and (table.is_bag or named != {key.lower() for key in table.keys}):
        have = "has no primary key" if table.is_bag else f"has the primary key ({', '.join(table.keys)})"
        raise conflict.keys[0].place.error(f'table "{table.name}" {have}')


def _changed(
    conflict: st.Conflict, table: Table, held: pa.Table, catalog: Catalog, rows: Rows, content: Content
) -> Effect:
    """DO UPDATE of rows whose keys have rows: these are `EXCLUDED`, in expressions that may also name the table."""
    if first_of_keys(table, held).num_rows < held.num_rows:
        raise conflict.keys[0].place.error(
            "ON CONFLICT DO UPDATE would change a row twice", "give each key once, for example by SELECT DISTINCT ON"
        )
    changes = _changes(conflict.changes, table)
    values = [changes.get(name, exp.column(name, table=table.name, quoted=True)) for name in table.schema.names]
    keys = [exp.column(key, table=table.name, quoted=True) for key in table.keys]
    same = [exp.EQ(this=key.copy(), expression=exp.column(key.name, table=_EXCLUDED, quoted=True)) for key in keys]
    where = exp.and_(*same, *([conflict.where.copy()] if conflict.where is not None else []))
    sources = (exp.Table(this=exp.to_identifier(_EXCLUDED)),)
    selected = _select(table, [*values, *keys], where, sources, None)
    return _replaced(table, rows(question_of(selected, catalog, {_EXCLUDED: held})), content)


def in_order(table: Table, given: pa.Table) -> pa.Table:
    """The columns of `given` in the order of the table's; missing columns are NULL."""
    columns = [
        given.column(field.name) if field.name in given.column_names else pa.nulls(given.num_rows, field.type)
        for field in table.schema
    ]
    return pa.table(columns, names=table.schema.names)


def _without_defaults(rows: exp.Expr) -> exp.Expr:
    """The rows with DEFAULT replaced by NULL, the only default that columns have."""
    return rows.transform(
        lambda node: exp.Null() if isinstance(node, exp.Var) and node.name.upper() == "DEFAULT" else node
    )


@effects_of.register
def _(statement: st.Update, catalog: Catalog, rows: Rows, content: Content) -> tuple[Effect, ...]:
    table = table_of(statement.table, catalog)
    changes = _changes(statement.changes, table)
    if len(changes) < len(statement.changes):
        raise statement.table.place.error("a column is set twice")
    named = _columns(table, statement)
    values = [changes.get(name, named(name)) for name in table.schema.names]
    matches = rows(question_of(_selected(table, [*values, *map(named, table.keys)], statement), catalog))
    keys = _keys(table, matches.select(range(len(values), matches.num_columns)))
    if len(set(key_rows(keys))) < keys.num_rows:
        raise statement.table.place.error(
            f'FROM has several rows for one of table "{table.name}"', "say in WHERE which one gives the new values"
        )
    return (_replaced(table, matches, content),)


@effects_of.register
def _(statement: st.Delete, catalog: Catalog, rows: Rows, content: Content) -> tuple[Effect, ...]:
    table = table_of(statement.table, catalog)
    selected = _selected(table, list(map(_columns(table, statement), table.keys)), statement)
    keys = _keys(table, rows(question_of(selected, catalog)))
    return (removed(table, keys.group_by(list(table.keys)).aggregate([]) if statement.sources else keys),)


def returned(statement: Write, catalog: Catalog, effects: Iterable[Effect], content: Content) -> Asked | None:
    """What RETURNING asks of the rows that a statement changes, as they are afterwards, of DELETE as they were; None
    without the clause."""
    if not statement.returning:
        return None
    table = table_of(statement.table, catalog)
    if isinstance(statement, st.Delete):
        keys = list(table.keys)
        rows = content.rows().join(pa.concat_tables([each.removed for each in effects]), keys, join_type="left semi")
    else:
        rows = pa.concat_tables([each.upserts for each in effects])
    alias = (None if isinstance(statement, st.Insert) else statement.alias) or table.name
    shown = rows.select([name for name in table.schema.names if name != ROW_NUMBER])
    source = exp.Table(this=exp.to_identifier(alias, quoted=True))
    query = exp.Select(expressions=[item.copy() for item in statement.returning], from_=exp.From(this=source))
    return question_of(query, catalog, {alias: shown}).over(lambda _: shown)


def _changes(changes: Iterable[tuple[st.Name, exp.Expr]], table: Table) -> dict[str, exp.Expr]:
    return {column_of(name, table): value for name, value in changes}


def _replaced(table: Table, matches: pa.Table, content: Content) -> Effect:
    """The effect of new rows, followed by the keys that they had."""
    width = len(table.schema)
    new, old = matches.select(range(width)), matches.select(range(width, matches.num_columns))
    return replaced(table, new, _keys(table, old), content)


def _selected(table: Table, values: list[exp.Expr], statement: st.Update | st.Delete) -> exp.Expr:
    """The query of `values` over the rows of a table that a statement is about."""
    return _select(table, values, statement.where, statement.sources, statement.alias)


def _select(
    table: Table, values: list[exp.Expr], where: exp.Expr | None, sources: Iterable[exp.Expr], alias: str | None
) -> exp.Expr:
    """The query of `values` over a table and other items of FROM."""
    named = [exp.alias_(value.copy(), f"c{at}", quoted=True) for at, value in enumerate(values)]
    shown = exp.TableAlias(this=exp.to_identifier(alias or table.name, quoted=True))
    source = exp.Table(this=exp.to_identifier(table.name, quoted=True), alias=shown)
    condition = {"where": exp.Where(this=where.copy())} if where is not None else {}
    joins = [join for item in sources for join in _joins(item.copy())]
    return exp.Select(expressions=named, from_=exp.From(this=source), joins=joins, **condition)


def _joins(item: exp.Expr) -> list[exp.Expr]:
    """An item of FROM as a join, followed by the joins that it has."""
    following = item.args.get("joins") or []
    item.set("joins", None)
    return [exp.Join(this=item, kind="CROSS"), *following]


def _columns(table: Table, statement: st.Update | st.Delete) -> Callable[[str], exp.Expr]:
    """The columns of the table by their names."""
    return lambda name: exp.column(
        name, table=exp.to_identifier(statement.alias or table.name, quoted=True), quoted=True
    )


def _keys(table: Table, rows: pa.Table) -> pa.Table:
    return rows.rename_columns(list(table.keys)).cast(table.key_schema)
