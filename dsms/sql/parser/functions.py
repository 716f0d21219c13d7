"""Parses CREATE FUNCTION, DROP FUNCTION and SHOW FUNCTIONS."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from sqlglot.tokenizer_core import TokenType

from dsms.model import statements as st
from dsms.sql.parser.cursor import Cursor, place_of
from dsms.sql.parser.declarations import column
from dsms.sql.parser.queries import options

_TEXTS = (TokenType.STRING, TokenType.HEREDOC_STRING, TokenType.RAW_STRING)
_LIMITS = ("TIME_LIMIT", "MEMORY")
_PARTS = ("HANDLER", "REQUIREMENTS", "WITH", "AS", "PACKAGE", "REGISTERED")
#: The parts of which a function has one.
_SOURCES = {"AS", "PACKAGE", "REGISTERED"}


@dataclass(frozen=True, slots=True)
class PythonCode:
    """The part after LANGUAGE PYTHON. `source` is a module, or a zip archive of modules. It is empty if `registered`
    names a function or class that was registered in a LocalSession."""

    handler: str
    source: bytes
    requirements: tuple[str, ...]
    limits: tuple[st.Clause, ...]
    registered: str | None


@dataclass(frozen=True, slots=True)
class CreateFunction(st.Statement):
    """`CREATE [OR REPLACE] FUNCTION name(parameters) RETURNS type LANGUAGE PYTHON … AS $$source$$`."""

    name: st.Name
    parameters: tuple[st.ColumnDefinition, ...]
    returns: st.ColumnDefinition
    code: PythonCode
    replace: bool
    sql: str


@dataclass(frozen=True, slots=True)
class DropFunction(st.Statement):
    """`DROP FUNCTION [IF EXISTS] name`."""

    name: st.Name
    if_exists: bool
    sql: str


@dataclass(frozen=True, slots=True)
class ShowFunctions(st.Statement):
    """`SHOW FUNCTIONS`."""

    sql: str


def create_function(cursor: Cursor, _: st.Name | None) -> CreateFunction:
    """Parses the rest of CREATE FUNCTION."""
    return _created(cursor, replace=False)


def replace_function(cursor: Cursor, _: st.Name | None) -> CreateFunction:
    """Parses the rest of CREATE OR REPLACE FUNCTION."""
    return _created(cursor, replace=True)


def drop_function(cursor: Cursor, _: st.Name | None) -> DropFunction:
    """Parses the rest of DROP FUNCTION."""
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name("function name")
    if cursor.accept("("):
        cursor.expect(")")
    cursor.end()
    return DropFunction(name, if_exists, cursor.sql)


def show_functions(cursor: Cursor, _: st.Name | None) -> ShowFunctions:
    """Parses the rest of SHOW FUNCTIONS."""
    cursor.end()
    return ShowFunctions(cursor.sql)


def _created(cursor: Cursor, *, replace: bool) -> CreateFunction:
    name = cursor.name("function name")
    cursor.expect("(")
    parameters = [column(cursor.until(",", ")"), cursor)]
    while cursor.accept(","):
        parameters.append(column(cursor.until(",", ")"), cursor))
    cursor.expect(")")
    if not cursor.accept(":"):
        cursor.expect("RETURNS")
    returns = _returns(cursor, name)
    cursor.expect("LANGUAGE")
    cursor.expect("PYTHON")
    code = python_code(cursor, name.text, "FUNCTION")
    return CreateFunction(name, tuple(parameters), returns, code, replace, cursor.sql)


def _returns(cursor: Cursor, name: st.Name) -> st.ColumnDefinition:
    tokens = []
    while not cursor.peeks("LANGUAGE"):
        tokens.append(cursor.next())
    if not tokens:
        cursor.fail("RETURNS needs a type")
    return st.ColumnDefinition(st.Name(name.text, place_of(tokens[0])), cursor.text_of(tokens))


def python_code(cursor: Cursor, handler: str, what: str) -> PythonCode:
    """Parses the part of `CREATE what` after LANGUAGE PYTHON. Without HANDLER in the text, the handler is `handler`."""
    requirements, limits = tuple[str, ...](), tuple[st.Clause, ...]()
    source, registered, given = b"", None, set[str]()
    while cursor.more():
        place = place_of(cursor.peek())
        part = cursor.one_of(_PARTS, f"part of CREATE {what}")
        if part in given or (part in _SOURCES and given & _SOURCES):
            raise place.error(f"{part} is given twice" if part in given else f"the {what.lower()} has two sources")
        given.add(part)
        if part == "HANDLER":
            handler = _text(cursor)
        elif part == "REQUIREMENTS":
            requirements = _listed(cursor)
        elif part == "WITH":
            limits = options(cursor, _LIMITS)
        elif part == "AS":
            source = _text(cursor).encode()
        elif part == "PACKAGE":
            source = _decoded(_text(cursor), place)
        else:
            registered = _text(cursor)
    if not source and registered is None:
        cursor.fail(f"the {what.lower()} has no source", "add AS $$…$$ or PACKAGE '…'")
    return PythonCode(handler, source, requirements, limits, registered)


def _text(cursor: Cursor) -> str:
    token = cursor.next()
    if token.token_type not in _TEXTS:
        raise place_of(token).error(f'expected a quoted text, found "{token.text}"')
    return token.text


def _listed(cursor: Cursor) -> tuple[str, ...]:
    cursor.expect("(")
    texts = [_text(cursor)]
    while cursor.accept(","):
        texts.append(_text(cursor))
    cursor.expect(")")
    return tuple(texts)


def _decoded(text: str, place: st.TextLocation) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise place.error("PACKAGE needs a zip archive in base64") from error
