"""Parses CREATE AGGREGATE. The SQL in the body of an aggregate stays text until it is bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sqlglot.tokenizer_core import Token

from dsms.model import statements as st
from dsms.sql.parser.cursor import Cursor, place_of, unquoted_text
from dsms.sql.parser.functions import PythonCode, python_code

_KINDS: Final = ("AGGREGATE", "WINDOW", "ALGEBRAIC")
CLAUSES: Final = ("INITIALIZE", "ITERATE", "TERMINATE", "EXPIRE")


@dataclass(frozen=True, slots=True)
class FieldSyntax:
    """A parameter, or a column of a local table or of the result; `type` is SQL text, or None if it is left out."""

    name: st.Name
    type: str | None


@dataclass(frozen=True, slots=True)
class TableSyntax:
    """`TABLE name (columns);`."""

    name: st.Name
    columns: tuple[FieldSyntax, ...]


@dataclass(frozen=True, slots=True)
class BodySql:
    """A piece of SQL in a body: its text, and its location in the script."""

    sql: str
    place: st.TextLocation


@dataclass(frozen=True, slots=True)
class RowChange:
    """INSERT, UPDATE or DELETE on a local table. `where` is the condition of `INSERT … VALUES … WHERE condition`."""

    verb: str
    text: BodySql
    where: BodySql | None = None


@dataclass(frozen=True, slots=True)
class Branch:
    """`IF condition { … } ELSE { … }`."""

    condition: BodySql
    then: tuple[BodyStatement, ...]
    otherwise: tuple[BodyStatement, ...] = ()


@dataclass(frozen=True, slots=True)
class Loop:
    """`WHILE condition { … }`."""

    condition: BodySql
    body: tuple[BodyStatement, ...]


BodyStatement = RowChange | Branch | Loop


@dataclass(frozen=True, slots=True)
class CreateAggregate(st.Statement):
    """`CREATE [OR REPLACE] [ALGEBRAIC] [WINDOW] AGGREGATE name (parameters): result { … }`."""

    name: st.Name
    parameters: tuple[FieldSyntax, ...]
    result: tuple[FieldSyntax, ...]
    tables: tuple[TableSyntax, ...]
    clauses: dict[str, tuple[BodyStatement, ...]]
    sql: str
    window: bool = False
    algebraic: bool = False
    replace: bool = False


@dataclass(frozen=True, slots=True)
class CreatePythonAggregate(st.Statement):
    """`CREATE [OR REPLACE] AGGREGATE name(parameters) RETURNS result LANGUAGE PYTHON … AS $$source$$`."""

    name: st.Name
    parameters: tuple[FieldSyntax, ...]
    result: tuple[FieldSyntax, ...]
    code: PythonCode
    sql: str
    replace: bool = False

    @property
    def window(self) -> bool:
        """False: an aggregate in Python is never for windows alone; both GROUP BY and windows can use it."""
        return False

    @property
    def algebraic(self) -> bool:
        """False: the results of an aggregate in Python are never combined from panes."""
        return False


#: The definition of an aggregate, in either language.
AggregateSyntax = CreateAggregate | CreatePythonAggregate


def create_aggregate(cursor: Cursor, first: str, *, replace: bool = False) -> AggregateSyntax:
    """Parses a definition after its first word, which is one of `_KINDS`. A definition with a local table `inwindow` is
    a window aggregate."""
    kinds = {first}
    while "AGGREGATE" not in kinds:
        kinds.add(cursor.one_of(("WINDOW", "AGGREGATE"), "kind of aggregate"))
    name = cursor.name("aggregate name")
    parameters = _fields(cursor, "parameter")
    if not cursor.accept("RETURNS"):
        cursor.expect(":")
    result = _fields(cursor, "column") if cursor.peeks("(") else (FieldSyntax(st.Name(""), _type(cursor)),)
    if cursor.accept("LANGUAGE"):
        cursor.expect("PYTHON")
        if kinds != {"AGGREGATE"}:
            raise name.place.error(
                "an aggregate in Python cannot be WINDOW or ALGEBRAIC", "leave out WINDOW and ALGEBRAIC"
            )
        return CreatePythonAggregate(
            name, parameters, result, python_code(cursor, name.text, "AGGREGATE"), cursor.sql, replace
        )
    cursor.expect("{")
    tables: list[TableSyntax] = []
    clauses: dict[str, tuple[BodyStatement, ...]] = {}
    while not cursor.accept("}"):
        if cursor.accept(";"):
            continue
        if cursor.accept("TABLE"):
            tables.append(TableSyntax(cursor.name("table name"), _fields(cursor, "column")))
        else:
            _add_clauses(cursor, clauses)
    cursor.end()
    if "initialize" not in clauses:
        raise name.place.error(f'aggregate "{name.text}" has no INITIALIZE', "INITIALIZE: { … } runs for the first row")
    window = "WINDOW" in kinds or any(table.name.text.lower() == "inwindow" for table in tables)
    return CreateAggregate(
        name,
        parameters,
        result,
        tuple(tables),
        clauses,
        cursor.sql,
        window,
        algebraic="ALGEBRAIC" in kinds,
        replace=replace,
    )


def _fields(cursor: Cursor, what: str) -> tuple[FieldSyntax, ...]:
    cursor.expect("(")
    if cursor.accept(")"):
        return ()
    fields = [_field(cursor, what)]
    while cursor.accept(","):
        fields.append(_field(cursor, what))
    cursor.expect(")")
    return tuple(fields)


def _field(cursor: Cursor, what: str) -> FieldSyntax:
    name, *type_ = cursor.until(",", ")")
    return FieldSyntax(cursor.name_of(name, f"{what} name"), cursor.text_of(type_) if type_ else None)


def _type(cursor: Cursor) -> str:
    return cursor.text_of(_until(cursor, ("{", "LANGUAGE")))


def _add_clauses(cursor: Cursor, clauses: dict[str, tuple[BodyStatement, ...]]) -> None:
    """Parses `INITIALIZE: ITERATE: { … }`: one body for all the clauses before it."""
    named: list[str] = []
    while not named or cursor.peek().text != "{":
        token = cursor.peek()
        clause = cursor.one_of(CLAUSES, "clause of an aggregate").lower()
        if clause in clauses or clause in named:
            raise place_of(token).error(f"{clause.upper()} is given twice")
        named.append(clause)
        cursor.expect(":")
    body = _body(cursor)
    clauses |= dict.fromkeys(named, body)


def _body(cursor: Cursor) -> tuple[BodyStatement, ...]:
    cursor.expect("{")
    statements: list[BodyStatement] = []
    while not cursor.accept("}"):
        if not cursor.accept(";"):
            statements.append(_statement(cursor))
    return tuple(statements)


def _statement(cursor: Cursor) -> BodyStatement:
    word = cursor.peek().text.upper()
    if word == "IF":
        cursor.next()
        condition = _text(cursor, _until(cursor, ("{", "THEN")))
        cursor.accept("THEN")
        then = _body(cursor)
        return Branch(condition, then, _body(cursor) if cursor.accept("ELSE") else ())
    if word == "WHILE":
        cursor.next()
        condition = _text(cursor, _until(cursor, ("{", "DO")))
        cursor.accept("DO")
        return Loop(condition, _body(cursor))
    if word not in ("INSERT", "UPDATE", "DELETE"):
        cursor.fail(
            f'"{cursor.peek().text}" does not start a statement of an aggregate',
            "have: INSERT, UPDATE, DELETE, IF, WHILE",
        )
    tokens = _until(cursor, (";", "}"))
    return _row_change(cursor, word, tokens)


def _row_change(cursor: Cursor, verb: str, tokens: list[Token]) -> RowChange:
    values = next((at for at, token in enumerate(tokens) if unquoted_text(token).upper() == "VALUES"), None)
    if verb != "INSERT" or values is None:
        return RowChange(verb.lower(), _text(cursor, tokens))
    depth = 0
    for at, token in enumerate(tokens):
        depth += {"(": 1, ")": -1}.get(unquoted_text(token), 0)
        if at > values and depth == 0 and unquoted_text(token).upper() == "WHERE":
            return RowChange("insert", _text(cursor, tokens[:at]), _text(cursor, tokens[at + 1 :]))
    return RowChange("insert", _text(cursor, tokens))


def _until(cursor: Cursor, stops: tuple[str, ...]) -> list[Token]:
    depth, taken = 0, list[Token]()
    while depth or unquoted_text(cursor.peek()).upper() not in stops:
        token = cursor.next()
        depth += {"(": 1, ")": -1}.get(unquoted_text(token), 0)
        taken.append(token)
    return taken


def _text(cursor: Cursor, tokens: list[Token]) -> BodySql:
    if not tokens:
        cursor.fail(f'unexpected "{cursor.peek().text}"')
    return BodySql(cursor.text_of(tokens), place_of(tokens[0]))


def _parser_of(first: str, *, replace: bool) -> Callable[[Cursor, st.Name | None], st.Statement]:
    return lambda cursor, _: create_aggregate(cursor, first, replace=replace)


#: The first words of the statement, each with the parser of the rest; ESL's paper prints it once without CREATE.
STARTS: Final[dict[tuple[str, ...], Callable[[Cursor, st.Name | None], st.Statement]]] = {
    **{("CREATE", first): _parser_of(first, replace=False) for first in _KINDS},
    **{("CREATE", "OR", "REPLACE", first): _parser_of(first, replace=True) for first in _KINDS},
    ("AGGREGATE",): _parser_of("AGGREGATE", replace=False),
}


def begins(words: list[str]) -> bool:
    """Whether the first words of a statement begin the definition of an aggregate, which contains semicolons."""
    return any(tuple(words[: len(start)]) == start for start in STARTS)
