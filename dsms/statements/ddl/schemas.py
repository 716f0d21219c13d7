"""CREATE SCHEMA, DROP SCHEMA and COMMENT ON SCHEMA: the namespaces of objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.names import PUBLIC, schema_prefix
from dsms.model.objects import Object
from dsms.model.statement_result import StatementResult
from dsms.model.topic_rules import check_name
from dsms.registration.environment import Applied, Environment, names_for_caller, schema_not_found
from dsms.sql.binder.dependencies import dependents
from dsms.sql.parser.cursor import Cursor
from dsms.statements.ddl.drop import names_dropped_with, without_objects
from dsms.statements.statement_kind import StatementKind

#: Names that PostgreSQL and the system use.
_RESERVED: Final = ("pg_", "dsms", "information_schema")
_NO_OWNERS = "leave it out: rights are patterns of names, such as {}.*, in the rules of tokens (docs/security.md)"


@dataclass(frozen=True, slots=True)
class CreateSchema(st.Statement):
    """`CREATE SCHEMA [IF NOT EXISTS] name`."""

    name: st.Name
    if_not_exists: bool
    sql: str


@dataclass(frozen=True, slots=True)
class DropSchema(st.Statement):
    """`DROP SCHEMA [IF EXISTS] name [RESTRICT | CASCADE]`."""

    name: st.Name
    if_exists: bool
    cascade: bool
    sql: str


@dataclass(frozen=True, slots=True)
class CommentOnSchema(st.Statement):
    """`COMMENT ON SCHEMA name IS 'text' | NULL`; COMMENT parses it."""

    name: st.Name
    text: str | None
    sql: str


def _schema_name(cursor: Cursor) -> st.Name:
    name = cursor.name_of(cursor.next(), "schema name")
    if "." in name.text:
        raise name.place.error("the name of a schema has no dots")
    return st.Name(name.text.lower(), name.place)


def _parse_create(cursor: Cursor, _: st.Name | None) -> CreateSchema:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = _schema_name(cursor)
    if cursor.peeks("AUTHORIZATION"):
        cursor.fail("AUTHORIZATION is not supported: schemas have no owners", _NO_OWNERS.format(name.text))
    cursor.end()
    return CreateSchema(name, if_not_exists, cursor.sql)


def _parse_drop(cursor: Cursor, _: st.Name | None) -> DropSchema:
    if_exists = cursor.accept("IF", "EXISTS")
    name = _schema_name(cursor)
    cascade = not cursor.accept("RESTRICT") and cursor.accept("CASCADE")
    cursor.end()
    return DropSchema(name, if_exists, cascade, cursor.sql)


def _create(statement: CreateSchema, catalog: Catalog, environment: Environment) -> Applied:
    name = statement.name.text
    if name in catalog.schemas or name == PUBLIC:
        if statement.if_not_exists:
            return catalog, StatementResult("CREATE", f'schema "{name}" already exists; nothing was done')
        raise statement.name.place.error(f'schema "{name}" already exists', "choose another name")
    check_name(statement.name)
    if name.startswith(_RESERVED):
        raise statement.name.place.error(f'the name "{name}" is reserved', "choose another name")
    if inside := _with_prefix(name, catalog):
        shown = names_for_caller(inside, environment)
        raise statement.name.place.error(
            f'schema "{name}" cannot be created: objects of public have its name before a dot: {shown}',
            "rename these, or choose another name",
        )
    return catalog.with_schemas({**catalog.schemas, name: ""}), StatementResult("CREATE", f'schema "{name}" created')


def _drop(statement: DropSchema, catalog: Catalog, environment: Environment) -> Applied:
    name = statement.name.text
    if name not in catalog.schemas and name != PUBLIC and statement.if_exists:
        return catalog, StatementResult("DROP", f'schema "{name}" does not exist')
    _check_exists(statement.name, catalog)
    inside = _with_prefix(name, catalog)
    above = [user for item in inside for user in dependents(catalog, item)]
    names = list(dict.fromkeys([*(each for item in inside for each in names_dropped_with(item)), *_names(above)]))
    sinks = [f"sink {sink.name}" for sink in catalog.sinks_of(names)]
    if names and not statement.cascade:
        shown = names_for_caller(inside, environment)
        raise statement.name.place.error(f'schema "{name}" has objects: {shown}', "drop these first or add CASCADE")
    left = {other: text for other, text in catalog.schemas.items() if other != name}
    after = (without_objects(catalog, names, environment) if names else catalog).with_schemas(left)
    return after, StatementResult("DROP", f"dropped {', '.join([f'schema {name}', *names, *sinks])}")


def _comment(statement: CommentOnSchema, catalog: Catalog, _: Environment) -> Applied:
    name = statement.name.text.lower()
    _check_exists(st.Name(name, statement.name.place), catalog)
    message = f'comment on schema "{name}" {"removed" if statement.text is None else "set"}'
    return catalog.with_schemas({**catalog.schemas, name: statement.text or ""}), StatementResult("COMMENT", message)


def _check_exists(name: st.Name, catalog: Catalog) -> None:
    """Raises SqlError unless it is a schema that statements created."""
    if name.text == PUBLIC:
        raise name.place.error('the schema "public" cannot be changed')
    if name.text not in catalog.schemas:
        raise schema_not_found(name)


def _with_prefix(schema: str, catalog: Catalog) -> list[Object]:
    return [item for item in catalog.objects.values() if schema_prefix(item.name) == schema]


def _names(items: list[Object]) -> list[str]:
    return [item.name for item in items]


def _all_names(statement: Any) -> tuple[st.Name, ...]:
    """The pattern of all names in the schema: who may write these may create, change and drop it."""
    return (st.Name(f"{statement.name.text.lower()}.*", statement.name.place),)


KINDS = (
    StatementKind(
        statement=CreateSchema, starts={("CREATE", "SCHEMA"): _parse_create}, apply=_create, changed_names=_all_names
    ),
    StatementKind(
        statement=DropSchema,
        starts={("DROP", "SCHEMA"): _parse_drop},
        apply=_drop,
        changed_names=_all_names,
        words=("RESTRICT", "CASCADE"),
    ),
    StatementKind(statement=CommentOnSchema, apply=_comment, changed_names=_all_names),
)
