"""The texts of statements that declare columns, after columns were added or dropped, or got other defaults.

The law: such a text declares exactly the columns of the object, in their order. It is read again to check that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

from sqlglot.tokenizer_core import Token

from dsms.model import statements as st
from dsms.sql.parser.cursor import unquoted_text
from dsms.sql.parser.dialect import Dsms
from dsms.sql.parser.table_elements import constraint_starts
from dsms.statements.ddl.renamed_texts import declarations
from operators.core.errors import UserError

#: The types that have others in angle brackets.
_NESTED = ("STRUCT", "ARRAY", "ROW")


def with_columns(sql: str, added: Sequence[str]) -> str:
    """The text of a statement with more definitions of columns, after those in its first parentheses.

    >>> with_columns("REGISTER SOURCE s (a INT, d DECIMAL(4, 1)) FROM t", ["b INT"])
    'REGISTER SOURCE s (a INT, d DECIMAL(4, 1), b INT) FROM t'
    """
    *_, end = _separators(sql)
    text = sql[:end] + "".join(f", {definition}" for definition in added) + sql[end:]
    if len(_declared(text)) != len(_declared(sql)) + len(added):
        raise _cannot_be_written()
    return text


def without_column(sql: str, name: str) -> str:
    """The text of a statement without the definition of a column.

    >>> without_column("CREATE TABLE t (a INT CHECK (a > 0), b INT DEFAULT 7, PRIMARY KEY (a))", "B")
    'CREATE TABLE t (a INT CHECK (a > 0), PRIMARY KEY (a))'
    """
    wanted = [each for each in _declared(sql) if each.lower() != name.lower()]
    first, *others = _separators(sql)
    for start, end in zip([first, *others], others, strict=False):
        text = sql[:start] + sql[end:] if start != first else sql[: start + 1] + sql[end + 1 :].lstrip()
        with suppress(UserError):
            if _declared(text) == wanted:
                return text
    raise _cannot_be_written()


def with_default(sql: str, name: str, default: str | None) -> str:
    """The text of CREATE TABLE with another default of a column, or without one.

    >>> with_default("CREATE TABLE t (a INT DEFAULT 1 CHECK (a > 0), b INT NOT NULL)", "a", "(2 + 3)")
    'CREATE TABLE t (a INT DEFAULT (2 + 3) CHECK (a > 0), b INT NOT NULL)'
    >>> with_default("CREATE TABLE t (a INT DEFAULT 1 CHECK (a > 0), b INT NOT NULL)", "a", None)
    'CREATE TABLE t (a INT CHECK (a > 0), b INT NOT NULL)'
    """
    wanted = _table(sql)
    wanted["defaults"] = {column: text for column, text in wanted["defaults"].items() if column != name}
    wanted["defaults"] |= {} if default is None else {name: default}
    written = "" if default is None else f" DEFAULT {default}"
    for start, end in pairwise(_separators(sql)):
        at, behind = _place_of_default([token for token in Dsms().tokenize(sql) if start < token.start < end])
        text = sql[:at] + written + sql[behind:]
        with suppress(UserError):
            if _table(text) == wanted:
                return text
    raise _cannot_be_written()


def _place_of_default(tokens: Sequence[Token]) -> tuple[int, int]:
    """The first character of the default in the tokens of an element, and that behind it; the end if there is none."""
    starts = [*(1 + at for at in constraint_starts([*tokens[1:]])), len(tokens)]
    for first, last in pairwise(starts):
        if unquoted_text(tokens[first]).upper() == "DEFAULT":
            return tokens[first - 1].end + 1, tokens[last - 1].end + 1
    return tokens[-1].end + 1, tokens[-1].end + 1


def _table(sql: str) -> dict[str, Any]:
    """What CREATE TABLE declares. Raises UserError if it is no such statement."""
    for statement in declarations(sql):
        if isinstance(statement, st.CreateTable):
            return {
                "columns": [(each.name.text, each.type, each.nullable) for each in statement.columns],
                "keys": [key.text for key in statement.keys],
                "checks": [(each, condition.text) for each, condition in statement.checks],
                "defaults": {column.text: given.text for column, given in statement.defaults},
            }
    raise _cannot_be_written()


def _separators(sql: str) -> Iterator[int]:
    """The places of the first opening parenthesis, of the commas in it, and of its closing parenthesis."""
    depth = angles = 0
    before = ""
    for token in Dsms().tokenize(sql):
        word = unquoted_text(token).upper()
        opens, closes = word in ("(", "["), word in (")", "]")
        if (word == "(" and depth == 0) or (word in (",", ")") and depth == 1 and not angles):
            yield token.start
        depth += opens - closes
        angles = max(angles + (word == "<" and before in _NESTED) - word.count(">"), 0)
        if closes and depth == 0:
            return
        before = word


def _declared(sql: str) -> list[str]:
    """The names of the columns that a statement declares. Raises UserError if it is no such statement."""
    columns: tuple[st.ColumnDefinition, ...] = ()
    for statement in declarations(sql):
        columns = columns or getattr(statement, "columns", ())
    return [column.name.text for column in columns]


def _cannot_be_written() -> UserError:
    return UserError("the text that declares the columns cannot be rewritten", hint="create another object")
