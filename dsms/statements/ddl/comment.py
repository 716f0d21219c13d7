"""COMMENT ON: describes an object or one of its columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec
from sqlglot.tokenizer_core import TokenType

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.names import full_name
from dsms.model.objects import Object, kind_of
from dsms.model.statement_result import StatementResult
from dsms.registration.environment import Applied, Environment
from dsms.registration.object_columns import column_named, schema_and_keys
from dsms.sql.parser.cursor import DATABASE, Cursor, place_of
from dsms.statements.ddl.schemas import CommentOnSchema
from dsms.statements.named_sinks import sink_named
from dsms.statements.object_kinds import KINDS, check_kind, kind_word
from dsms.statements.statement_kind import StatementKind, changes_named
from operators.core.quoting import quoted_identifier, quoted_text

#: The most characters of a comment: all comments are stored in one record.
MAX_CHARACTERS: Final = 2_000
_COMMENTED = ("SOURCE", "STREAM", "TABLE", "VIEW", "QUERY")
_SINK, _SCHEMA = "SINK", "SCHEMA"


@dataclass(frozen=True, slots=True)
class Comment(st.Statement):
    """`COMMENT ON kind name IS 'text' | NULL`; without a `kind`, `COMMENT ON COLUMN name.column IS …` or, `on_sink`,
    `COMMENT ON SINK name IS …`."""

    kind: st.Kind | None
    name: st.Name
    column: st.Name | None
    text: str | None
    sql: str
    on_sink: bool = False


def _parse(cursor: Cursor, _: st.Name | None) -> Comment | CommentOnSchema:
    word = kind_word(cursor, (*_COMMENTED, _SINK, _SCHEMA, "COLUMN"))
    name, column = _column_name(cursor) if word == "COLUMN" else (cursor.object_name("name"), None)
    cursor.expect("IS")
    text = None if cursor.accept("NULL") else _text(cursor)
    cursor.end()
    if word == _SCHEMA:
        return CommentOnSchema(name, text, cursor.sql)
    return Comment(KINDS.get(word), name, column, text, cursor.sql, on_sink=word == _SINK)


def _column_name(cursor: Cursor) -> tuple[st.Name, st.Name]:
    """The names of an object and of its column in `[schema.]name.column`."""
    parts = [cursor.name_of(cursor.next(), "name")]
    while len(parts) == 1 or cursor.peeks("."):
        cursor.expect(".")
        parts.append(cursor.name_of(cursor.next(), "column name"))
    if len(parts) == 4 and parts[0].text.upper() == DATABASE:
        parts = parts[1:]
    if len(parts) > 3:
        raise parts[0].place.error("expected schema.name.column")
    *schemas, name, column = parts
    return next((st.Name(full_name(each.text, name.text), each.place) for each in schemas), name), column


def _text(cursor: Cursor) -> str:
    if cursor.peek().token_type is not TokenType.STRING:
        cursor.fail(f'expected a text or NULL, found "{cursor.peek().text}"', "COMMENT ON TABLE t IS 'text'")
    token = cursor.next()
    if len(token.text) > MAX_CHARACTERS:
        raise place_of(token).error(f"a comment has at most {MAX_CHARACTERS} characters, not {len(token.text)}")
    return token.text


def _apply(statement: Comment, catalog: Catalog, environment: Environment) -> Applied:
    if statement.on_sink:
        return _on_sink(statement, catalog, environment)
    item = catalog.find(statement.name.text, statement.name.place)
    if statement.kind is not None:
        check_kind(statement.name, statement.kind, item)
    column = "" if statement.column is None else _column(statement.column, item, catalog)
    what = f'column "{column}" of "{item.name}"' if column else f'{kind_of(item)} "{item.name}"'
    message = f"comment on {what} {'removed' if statement.text is None else 'set'}"
    result = StatementResult("COMMENT", message, name=item.name)
    return catalog.with_comment(item.name, column, statement.text), result


def _on_sink(statement: Comment, catalog: Catalog, environment: Environment) -> Applied:
    sink = sink_named(statement.name, catalog, environment)
    message = f'comment on sink "{sink.name}" {"removed" if statement.text is None else "set"}'
    after = catalog.with_sink(msgspec.structs.replace(sink, comment=statement.text or ""))
    return after, StatementResult("COMMENT", message, name=sink.name)


def _column(name: st.Name, item: Object, catalog: Catalog) -> str:
    return column_named(name, schema_and_keys(item, catalog)[0].names, f'"{item.name}"')


def comment_statements(item: Object, catalog: Catalog) -> list[str]:
    """The statements that set the comments of an object."""
    name, kind = quoted_identifier(item.name), kind_of(item).upper()
    return [
        f"COMMENT ON {f'COLUMN {name}.{quoted_identifier(on)}' if on else f'{kind} {name}'} IS {quoted_text(text)}"
        for on, text in catalog.comments_on(item.name).items()
    ]


KIND = StatementKind(
    statement=Comment,
    starts={("COMMENT", "ON"): _parse},
    apply=_apply,
    changed_names=changes_named,
    words=(*_COMMENTED, _SINK, _SCHEMA, "COLUMN", "IS"),
)
