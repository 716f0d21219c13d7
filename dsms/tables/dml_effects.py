"""INSERT, UPDATE and DELETE evaluated over the relations of one instant."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator
from functools import singledispatch
from typing import cast

import pyarrow as pa
import structlog
from sqlglot import exp

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.names import bare_name
from dsms.model.objects import ROW_NUMBER, Table
from dsms.registration.table_targets import check_values, columns_of, table_of
from dsms.tables.effect import (
    Content,
    Effect,
    Key,
    duplicate_key,
    first_of_keys,
    insert_effect,
    key_rows,
    remove_effect,
    split_by_existing,
)
from dsms.tables.merge import merge_effects, selects_of
from dsms.tables.one_time_query import OneTimeQuery, OneTimeQueryWithRows, names_of, one_time_query_of
from dsms.tables.table_rows import (
    changes_of,
    check_columns_differ,
    columns_in,
    defaults_of,
    in_column_order,
    keys_in,
    replacement_effect,
    select_over,
    violation_query,
    with_defaults,
)
from operators.core.errors import UserError

log = structlog.get_logger()
Write = st.Insert | st.Update | st.Delete | st.Merge
#: Returns the rows of a query.
Rows = Callable[[OneTimeQuery], pa.Table]
#: The name in ON CONFLICT DO UPDATE of the rows that INSERT could not add.
_EXCLUDED = "excluded"


def names_read(statement: Write, catalog: Catalog) -> list[str]:
    """The names of the relations that a statement reads, its own table included."""
    return list(dict.fromkeys(_names_read(statement, table_of(statement.table, catalog), catalog)))


@singledispatch
def _names_read(statement: Write, table: Table, catalog: Catalog) -> list[str]:
    raise TypeError(statement)


@_names_read.register
def _(statement: st.Insert, table: Table, catalog: Catalog) -> list[str]:
    itself = statement.returning or (statement.conflict is not None and statement.conflict.changes)
    return [*names_of(statement.rows, catalog), *([table.name] if itself else [])]


@_names_read.register
def _(statement: st.Update, table: Table, catalog: Catalog) -> list[str]:
    return names_of(_selected(table, [value for _, value in statement.changes], statement), catalog)


@_names_read.register
def _(statement: st.Delete, table: Table, catalog: Catalog) -> list[str]:
    return names_of(_selected(table, [], statement), catalog)


@_names_read.register
def _(statement: st.Merge, table: Table, catalog: Catalog) -> list[str]:
    names = (name for select in selects_of(statement, table) for name in names_of(select, catalog))
    return [table.name, *names]


def effects_of(
    statement: Write, catalog: Catalog, rows: Rows, content: Content, now: dt.datetime
) -> tuple[Effect, ...]:
    """The effects of a statement at the instant `now`; no two have a key in common. Nothing is written. `rows` answers
    a query over the objects of `names_read`. Raises UserError for a row that violates a CHECK."""
    effects = _effects_of(statement, catalog, lambda asked: rows(asked.at(now)), content)
    return tuple(checked(table_of(statement.table, catalog), effect, catalog, rows) for effect in effects)


def load_effects(
    table: Table, batches: Iterable[pa.Table], catalog: Catalog, rows: Rows, content: Content, now: dt.datetime
) -> Iterator[Effect]:
    """The effects of a load at the instant `now`: each batch as new rows."""
    seen = set[Key]()
    for batch in batches:
        defaults = defaults_of(table, batch.column_names, lambda query: rows(one_time_query_of(query, catalog).at(now)))
        effect = insert_effect(table, in_column_order(table, batch, defaults), content, seen)
        yield checked(table, effect, catalog, rows)
        log.info("loading", table=table.name, rows=len(seen))


def checked(table: Table, effect: Effect, catalog: Catalog, rows: Rows) -> Effect:
    """Returns the effect. Raises UserError if one of its rows violates a CHECK."""
    if table.checks and effect.upserts.num_rows:
        violations = rows(one_time_query_of(violation_query(table), catalog, {table.name: effect.upserts}))
        for number, *values in key_rows(violations):
            name = list(table.checks)[cast("int", number)]
            row = ", ".join(f"{column}: {value!r}" for column, value in zip(table.schema.names, values, strict=True))
            raise UserError(f'row ({row}) of table "{table.name}" violates check "{name}": {table.checks[name]}')
    return effect


@singledispatch
def _effects_of(statement: Write, catalog: Catalog, rows: Rows, content: Content) -> tuple[Effect, ...]:
    raise TypeError(statement)


@_effects_of.register
def _(statement: st.Insert, catalog: Catalog, rows: Rows, content: Content) -> tuple[Effect, ...]:
    table = table_of(statement.table, catalog)
    names = columns_of(statement.columns, table)
    selected = rows(one_time_query_of(with_defaults(table, names, statement.rows), catalog))
    check_values(statement.table, names, selected.num_columns)
    defaults = defaults_of(table, names, lambda query: rows(one_time_query_of(query, catalog)))
    given = in_column_order(table, selected.rename_columns(names), defaults)
    if statement.conflict is None:
        return (insert_effect(table, given, content, set()),)
    _check_keys(statement.conflict, table)
    new_rows, existing = split_by_existing(table, given, content)
    if not statement.conflict.changes:
        return (insert_effect(table, first_of_keys(table, new_rows), content, set()),)
    seen = set[Key]()
    added = insert_effect(table, new_rows, content, seen)
    changed = _do_update_effect(statement.conflict, table, existing, catalog, rows, content)
    if taken := seen.intersection(key_rows(changed.upserts.select(list(table.keys)))):
        raise duplicate_key(table, min(taken, key=repr), "a row that is inserted and one that is updated have this key")
    return added, changed


def _check_keys(conflict: st.Conflict, table: Table) -> None:
    """Raises SqlError if a conflict names keys that are not the primary key."""
    named = {key.text.lower() for key in conflict.keys}
    if named and (table.is_bag or named != {key.lower() for key in table.keys}):
        have = "has no primary key" if table.is_bag else f"has the primary key ({', '.join(table.keys)})"
        raise conflict.keys[0].place.error(f'table "{table.name}" {have}')


def _do_update_effect(
    conflict: st.Conflict, table: Table, existing: pa.Table, catalog: Catalog, rows: Rows, content: Content
) -> Effect:
    """The effect of DO UPDATE. `existing` are the given rows whose keys the table has: expressions name them
    `EXCLUDED`, and the rows of the table by its name."""
    if first_of_keys(table, existing).num_rows < existing.num_rows:
        raise conflict.keys[0].place.error(
            "ON CONFLICT DO UPDATE would change a row twice", "give each key once, for example by SELECT DISTINCT ON"
        )
    changes = changes_of(conflict.changes, table)
    named = columns_in(table, None)
    values = [changes.get(name, named(name)) for name in table.schema.names]
    keys = list(map(named, table.keys))
    same = [exp.EQ(this=key.copy(), expression=exp.column(key.name, table=_EXCLUDED, quoted=True)) for key in keys]
    where = exp.and_(*same, *([conflict.where.copy()] if conflict.where is not None else []))
    sources = (exp.Table(this=exp.to_identifier(_EXCLUDED)),)
    selected = select_over(table, [*values, *keys], where, sources, None)
    return replacement_effect(table, rows(one_time_query_of(selected, catalog, {_EXCLUDED: existing})), content)


@_effects_of.register
def _(statement: st.Update, catalog: Catalog, rows: Rows, content: Content) -> tuple[Effect, ...]:
    table = table_of(statement.table, catalog)
    check_columns_differ(statement.changes, table)
    changes = changes_of(statement.changes, table)
    named = columns_in(table, statement.alias)
    values = [changes.get(name, named(name)) for name in table.schema.names]
    matches = rows(one_time_query_of(_selected(table, [*values, *map(named, table.keys)], statement), catalog))
    keys = keys_in(table, matches.select(range(len(values), matches.num_columns)))
    if len(set(key_rows(keys))) < keys.num_rows:
        raise statement.table.place.error(
            f'FROM has several rows for one row of table "{table.name}"', "choose one of them in WHERE"
        )
    return (replacement_effect(table, matches, content),)


@_effects_of.register
def _(statement: st.Delete, catalog: Catalog, rows: Rows, content: Content) -> tuple[Effect, ...]:
    table = table_of(statement.table, catalog)
    selected = _selected(table, list(map(columns_in(table, statement.alias), table.keys)), statement)
    keys = keys_in(table, rows(one_time_query_of(selected, catalog)))
    return (remove_effect(table, keys.group_by(list(table.keys)).aggregate([]) if statement.sources else keys),)


@_effects_of.register
def _(statement: st.Merge, catalog: Catalog, rows: Rows, content: Content) -> tuple[Effect, ...]:
    table = table_of(statement.table, catalog)
    return merge_effects(statement, table, lambda select: rows(one_time_query_of(select, catalog)), content)


def returning_query(
    statement: Write, catalog: Catalog, effects: Iterable[Effect], content: Content, now: dt.datetime
) -> OneTimeQueryWithRows | None:
    """The query of RETURNING, over the changed rows as they are afterwards (before, for DELETE); None without the
    clause."""
    if not statement.returning:
        return None
    table = table_of(statement.table, catalog)
    alias = (None if isinstance(statement, st.Insert) else statement.alias) or bare_name(table.name)
    shown = _changed_rows(statement, table, effects, content).select(
        [name for name in table.schema.names if name != ROW_NUMBER]
    )
    source = exp.Table(this=exp.to_identifier(alias, quoted=True))
    query = exp.Select(expressions=[item.copy() for item in statement.returning], from_=exp.From(this=source))
    return one_time_query_of(query, catalog, {alias: shown}).at(now).over(lambda _: shown)


def _changed_rows(statement: Write, table: Table, effects: Iterable[Effect], content: Content) -> pa.Table:
    """The rows that a statement has changed, in their new version; for DELETE, the removed rows."""
    if not isinstance(statement, st.Delete):
        return pa.concat_tables([each.upserts for each in effects])
    keys = pa.concat_tables([each.removed for each in effects])
    return content.rows().join(keys, list(table.keys), join_type="left semi")


def _selected(table: Table, values: list[exp.Expr], statement: st.Update | st.Delete) -> exp.Expr:
    """The query of `values` over the rows of a table that a statement changes."""
    return select_over(table, values, statement.where, statement.sources, statement.alias)
