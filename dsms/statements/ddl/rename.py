"""ALTER … RENAME TO: gives an object another name. Its topics, id, state and readers stay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.names import PUBLIC, bare_name, full_name, schema_prefix
from dsms.model.objects import Object, Query, Source, Stream, Table, kind_of
from dsms.model.statement_result import StatementResult
from dsms.registration.environment import Applied, Environment, check_free, names_for_caller
from dsms.sql.binder.dependencies import dependents
from dsms.sql.parser.cursor import Cursor, place_of
from dsms.statements.ddl.add_columns import AddColumns, parse_added
from dsms.statements.ddl.alter_columns import AlterColumns, parse_altered
from dsms.statements.ddl.being_changed import check_settled
from dsms.statements.ddl.drop_columns import DropColumns, parse_dropped
from dsms.statements.ddl.renamed_objects import renamed
from dsms.statements.object_kinds import KINDS, check_kind
from dsms.statements.statement_kind import StatementKind

_CREATE_AGAIN = "DROP it and create it again; CREATE TABLE new AS SELECT … FROM old copies the rows of a table"
_OTHER_COLUMNS = "register another source over the topic; CREATE TABLE new AS SELECT … FROM old copies a table"


@dataclass(frozen=True, slots=True)
class Rename(st.Statement):
    """`ALTER kind name RENAME TO new`, or `… SET SCHEMA schema`. A bare new name stays in the schema of the old one."""

    kind: st.Kind
    name: st.Name
    new: st.Name
    sql: str


def parse_rename(cursor: Cursor, kind: st.Kind, name: st.Name) -> Rename:
    """What follows RENAME in `ALTER kind name RENAME TO new`."""
    if not cursor.accept("TO"):
        raise place_of(cursor.peek()).error("expected TO; columns cannot be renamed", _CREATE_AGAIN)
    moved = cursor.dots_ahead() > 0
    new = cursor.object_name(f"{kind} name")
    cursor.end()
    kept = new if moved else st.Name(full_name(schema_prefix(name.text) or PUBLIC, new.text), new.place)
    return Rename(kind, name, kept, cursor.sql)


def parse_set_schema(cursor: Cursor, kind: st.Kind, name: st.Name) -> Rename:
    """What follows SET SCHEMA in `ALTER kind name SET SCHEMA schema`: the name after the dot stays."""
    schema = cursor.name_of(cursor.next(), "schema name")
    cursor.end()
    return Rename(kind, name, st.Name(full_name(schema.text, bare_name(name.text)), schema.place), cursor.sql)


def _parse(cursor: Cursor, _: st.Name | None) -> Rename | AddColumns | DropColumns | AlterColumns:
    """`ALTER SOURCE | STREAM | TABLE name RENAME TO new`, `… ADD COLUMN column type`, `… DROP COLUMN column` or
    `… ALTER COLUMN column SET DEFAULT expression`."""
    kind = KINDS[cursor.tokens[cursor.at - 1].text.upper()]
    name = cursor.object_name(f"{kind} name")
    if cursor.accept("ADD"):
        return parse_added(cursor, kind, name)
    if cursor.accept("DROP"):
        return parse_dropped(cursor, kind, name)
    if cursor.accept("ALTER"):
        return parse_altered(cursor, kind, name)
    if cursor.accept("SET", "SCHEMA"):
        return parse_set_schema(cursor, kind, name)
    if not cursor.accept("RENAME"):
        known = "RENAME TO, SET SCHEMA, ADD COLUMN, DROP COLUMN and ALTER COLUMN"
        cursor.fail(f"only {known} are supported after ALTER {kind.upper()}", _OTHER_COLUMNS)
    return parse_rename(cursor, kind, name)


def _apply(statement: Rename, catalog: Catalog, environment: Environment) -> Applied:
    item = catalog.find(statement.name.text, statement.name.place)
    check_kind(statement.name, statement.kind, item)
    check_free(catalog, statement.new)
    _check_alone(item, statement, catalog)
    users = dependents(catalog, item)
    check_settled([item, *users], statement.name, "renamed", environment)
    after, refused = renamed(item, statement.new.text, catalog)
    if refused is not None:
        shown = names_for_caller([refused], environment)
        why = f'"{item.name}" cannot be renamed: {shown} names it in a way that cannot be rewritten'
        raise statement.name.place.error(why, "drop that object, and create it again with the new name")
    rewritten = [user for user in users if user != after.get(user.name)]
    notices = [*_topics(after.find(statement.new.text))]
    if rewritten:
        notices.append(f"the new name is in the text of {names_for_caller(rewritten, environment)}")
    message = f'{kind_of(item)} "{item.name}" renamed to "{statement.new.text}"'
    return after, StatementResult("ALTER", message, notices=tuple(notices), name=statement.new.text)


def _check_alone(item: Object, statement: Rename, catalog: Catalog) -> None:
    """Raises SqlError for a stream that was declared with its columns, and for its source: the statement that creates
    both names the source and, by default, the topic after the stream."""
    declared = next((stream for stream in catalog.streams() if stream.declared and stream.sql == item.sql), None)
    if declared is not None and isinstance(item, Source | Stream):
        hint = f"CREATE STREAM {statement.new.text} AS SELECT * FROM {declared.name}"
        both = f'stream "{declared.name}" was declared together with source "{declared.source}"'
        raise statement.name.place.error(f"{both}: their names belong together", hint)


def _topics(item: Object) -> Iterator[str]:
    """What keeps the old name."""
    if isinstance(item, Source):
        yield f'its dead letters stay in topic "{item.dead_letter_topic}"'
    elif isinstance(item, Table) or (isinstance(item, Query) and item.periodic is None and item.fills is None):
        yield f'its changes stay in topic "{item.topic}"'


KIND = StatementKind(
    statement=Rename,
    starts={("ALTER", "SOURCE"): _parse, ("ALTER", "STREAM"): _parse, ("ALTER", "TABLE"): _parse},
    apply=_apply,
    changed_names=lambda statement: (statement.name, statement.new),
    words=("RENAME", "TO", "ADD", "DROP", "ALTER", "COLUMN"),
)
