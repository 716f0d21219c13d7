"""COMMENT ON: describes an object or one of its columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlglot.tokenizer_core import TokenType

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Object, kind_of
from dsms.model.statement_result import StatementResult
from dsms.registration.environment import Applied, Environment
from dsms.registration.object_columns import column_named, schema_and_keys
from dsms.sql.parser.cursor import Cursor, place_of
from dsms.statements.object_kinds import KINDS, check_kind, kind_word
from dsms.statements.statement_kind import StatementKind, changes_named
from operators.core.quoting import quoted_identifier, quoted_text

#: The most characters of a comment: all comments are stored in one record.
MAX_CHARACTERS: Final = 2_000
_COMMENTED = ("SOURCE", "STREAM", "TABLE", "VIEW", "QUERY")


@dataclass(frozen=True, slots=True)
class Comment(st.Statement):
    """`COMMENT ON kind name IS 'text' | NULL`, or `COMMENT ON COLUMN name.column IS …`, without a `kind`."""

    kind: st.Kind | None
    name: st.Name
    column: st.Name | None
    text: str | None
    sql: str


def _parse(cursor: Cursor, _: st.Name | None) -> Comment:
    word = kind_word(cursor, (*_COMMENTED, "COLUMN"))
    name, column = cursor.name("name"), None
    if word == "COLUMN":
        cursor.expect(".")
        column = cursor.name_of(cursor.next(), "column name")
    cursor.expect("IS")
    text = None if cursor.accept("NULL") else _text(cursor)
    cursor.end()
    return Comment(None if column else KINDS[word], name, column, text, cursor.sql)


def _text(cursor: Cursor) -> str:
    if cursor.peek().token_type is not TokenType.STRING:
        cursor.fail(f'expected a text or NULL, found "{cursor.peek().text}"', "COMMENT ON TABLE t IS 'text'")
    token = cursor.next()
    if len(token.text) > MAX_CHARACTERS:
        raise place_of(token).error(f"a comment has at most {MAX_CHARACTERS} characters, not {len(token.text)}")
    return token.text


def _apply(statement: Comment, catalog: Catalog, environment: Environment) -> Applied:
    item = catalog.find(statement.name.text, statement.name.place)
    if statement.kind is not None:
        check_kind(statement.name, statement.kind, item)
    column = "" if statement.column is None else _column(statement.column, item, catalog)
    what = f'column "{column}" of "{item.name}"' if column else f'{kind_of(item)} "{item.name}"'
    message = f"comment on {what} {'removed' if statement.text is None else 'set'}"
    result = StatementResult("COMMENT", message, name=item.name)
    return catalog.with_comment(item.name, column, statement.text), result


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
    words=(*_COMMENTED, "COLUMN", "IS"),
)
