"""CREATE INDEX and DROP INDEX: columns by whose values SELECTs that run once find rows of a view, query or table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Object, Query, Table, kind_of
from dsms.model.statement_result import StatementResult
from dsms.registration.environment import Applied, Environment
from dsms.registration.object_columns import column_named, schema_and_keys
from dsms.sql.parser.cursor import Cursor
from dsms.statements.statement_kind import StatementKind
from dsms.tables.sorted_index import indexable
from operators.core.nearest import have
from operators.core.quoting import quoted_identifier
from operators.expressions.rendering import type_name

#: The most indexes on one object: each takes memory and time whenever its rows are sorted.
_MOST = 16
_UNIQUE = "UNIQUE is not checked: only the key of a table is unique"
_NOTHING = "only columns can be indexed, without WHERE: no index was created"


@dataclass(frozen=True, slots=True)
class CreateIndex(st.Statement):
    """`CREATE [UNIQUE] INDEX [IF NOT EXISTS] [name] ON object (column, …)`; `columns` is empty for indexes of
    expressions and indexes with WHERE, which scripts for other systems have."""

    name: st.Name | None
    on: st.Name
    columns: tuple[st.Name, ...]
    if_not_exists: bool
    unique: bool
    sql: str


@dataclass(frozen=True, slots=True)
class DropIndex(st.Statement):
    """`DROP INDEX [IF EXISTS] name`; `on` is the object that has the index, once it is known."""

    name: st.Name
    if_exists: bool
    sql: str
    on: st.Name | None = None


def _parse_create(cursor: Cursor, _: st.Name | None) -> CreateIndex:
    unique = any(token.text.upper() == "UNIQUE" for token in cursor.tokens[: cursor.at])
    cursor.accept("CONCURRENTLY")
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = None if cursor.peeks("ON") else cursor.name("index name")
    cursor.expect("ON")
    cursor.accept("ONLY")
    on = cursor.object_name("name")
    if if_not_exists and name is None:
        raise on.place.error("IF NOT EXISTS needs the name of the index", "CREATE INDEX IF NOT EXISTS name ON …")
    if cursor.accept("USING"):
        cursor.next()
    columns = tuple(_columns(cursor))
    plain = not cursor.more()
    cursor.at = len(cursor.tokens)
    return CreateIndex(name, on, columns if plain else (), if_not_exists, unique, cursor.sql)


def _columns(cursor: Cursor) -> Iterator[st.Name]:
    """The columns, up to the first item that is not one."""
    cursor.expect("(")
    while cursor.more():
        token = cursor.next()
        if not (cursor.accept("ASC") or cursor.accept("DESC")) and not (cursor.peeks(",") or cursor.peeks(")")):
            return
        yield cursor.name_of(token, "column name")
        if cursor.accept(")"):
            return
        cursor.expect(",")


def _parse_drop(cursor: Cursor, _: st.Name | None) -> DropIndex:
    cursor.accept("CONCURRENTLY")
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name("index name")
    cursor.accept("CASCADE") or cursor.accept("RESTRICT")
    cursor.end()
    return DropIndex(name, if_exists, cursor.sql)


def _resolve_drop(statement: DropIndex, catalog: Catalog) -> st.Statement:
    """The statement with the object that has the index, which the caller must be allowed to change."""
    owner = _owner(statement.name.text, catalog)
    return statement if owner is None else replace(statement, on=st.Name(owner, statement.name.place))


def _owner(index: str, catalog: Catalog) -> str | None:
    """The name of the object that has an index."""
    return next((name for name, indexes in catalog.indexes.items() if index.lower() in indexes), None)


def _create(statement: CreateIndex, catalog: Catalog, environment: Environment) -> Applied:
    item = catalog.find(statement.on.text, statement.on.place)
    _check_readable(item, statement.on)
    if not statement.columns:
        return catalog, StatementResult("CREATE INDEX", "nothing was done", notices=(_NOTHING,))
    columns = tuple(_checked(statement, item, catalog))
    name = _name(statement, item, columns, catalog)
    if _owner(name, catalog) is not None:
        if statement.if_not_exists:
            return catalog, StatementResult("CREATE INDEX", f'index "{name}" already exists')
        place = statement.on.place if statement.name is None else statement.name.place
        raise place.error(f'an index named "{name}" already exists', "choose another name")
    indexes = catalog.indexes_on(item.name)
    if len(indexes) >= _MOST:
        raise statement.on.place.error(f'"{item.name}" has {_MOST} indexes already', "drop one that no SELECT needs")
    after = catalog.with_indexes(item.name, {**indexes, name: columns})
    message = f'index "{name}" on {kind_of(item)} "{item.name}" created'
    return after, StatementResult("CREATE INDEX", message, notices=(_UNIQUE,) if statement.unique else (), name=name)


def _check_readable(item: Object, name: st.Name) -> None:
    if not isinstance(item, Table | Query) or (isinstance(item, Query) and item.periodic is not None):
        raise name.place.error(f'"{item.name}" keeps no rows', "an index is on a view, a query or a table")


def _checked(statement: CreateIndex, item: Object, catalog: Catalog) -> Iterator[str]:
    schema, found = schema_and_keys(item, catalog)[0], set[str]()
    for name in statement.columns:
        column = column_named(name, schema.names, f'"{item.name}"')
        if column in found:
            raise name.place.error(f'column "{column}" is named twice', "name each column once")
        if not indexable(schema.field(column).type):
            shown = type_name(schema.field(column).type)
            raise name.place.error(
                f'column "{column}" has the type {shown}, which cannot be indexed', "index numbers, texts or times"
            )
        found.add(column)
        yield column


def _name(statement: CreateIndex, item: Object, columns: tuple[str, ...], catalog: Catalog) -> str:
    """The given name, or one made of the names of the object and its columns, as in PostgreSQL."""
    if statement.name is not None:
        return statement.name.text.lower()
    base = "_".join([item.name, *columns, "idx"]).lower()
    names = [base, *(f"{base}{number}" for number in range(1, _MOST + 1))]
    return next((name for name in names if _owner(name, catalog) is None), base)


def _drop(statement: DropIndex, catalog: Catalog, environment: Environment) -> Applied:
    name = statement.name.text.lower()
    owner = _owner(name, catalog)
    if owner is None:
        if statement.if_exists:
            return catalog, StatementResult("DROP INDEX", f'index "{name}" does not exist')
        known = [index for on, each in catalog.indexes.items() if environment.may_read(on) for index in each]
        raise statement.name.place.error(f'there is no index "{name}"', have(name, known) if known else "")
    left = {index: columns for index, columns in catalog.indexes_on(owner).items() if index != name}
    return catalog.with_indexes(owner, left), StatementResult("DROP INDEX", f'dropped index "{name}"', name=name)


def index_statements(item: Object, catalog: Catalog) -> list[str]:
    """The statements that create the indexes of an object."""
    on = quoted_identifier(item.name)
    return [
        f"CREATE INDEX {quoted_identifier(name)} ON {on} ({', '.join(map(quoted_identifier, columns))})"
        for name, columns in catalog.indexes_on(item.name).items()
    ]


CREATE = StatementKind(
    statement=CreateIndex,
    starts={("CREATE", "INDEX"): _parse_create, ("CREATE", "UNIQUE", "INDEX"): _parse_create},
    apply=_create,
    changed_names=lambda statement: (statement.on,),
    words=("ON",),
)
DROP = StatementKind(
    statement=DropIndex,
    starts={("DROP", "INDEX"): _parse_drop},
    resolve=_resolve_drop,
    apply=_drop,
    changed_names=lambda statement: () if statement.on is None else (statement.on,),
)
