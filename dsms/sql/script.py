"""Scripts: statements about the loading and the listing of tables, and all that `parse` knows."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from dsms.sql import load_statements as tables
from dsms.sql import statements as st
from dsms.sql.cursor import Cursor
from dsms.sql.dialect import Dsms
from dsms.sql.parse import parse
from operators.errors import SqlError

ScriptStatement = st.Statement | tables.Load


def read_script(script: str) -> list[ScriptStatement]:
    """The statements of a script, separated by semicolons; SqlError has the line and column in the script.

    >>> [type(one).__name__ for one in read_script("COPY t FROM 'rows.csv'; SELECT * FROM t")]
    ['LoadFile', 'Select']
    """
    try:
        tokens = Dsms().tokenize(script)
    except TokenError as error:
        raise SqlError(f"cannot read the statement: {error}") from error
    return [statement for part in _parts(tokens) for statement in _read(script, part)]


def _parts(tokens: list[Token]) -> list[list[Token]]:
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def _read(script: str, part: list[Token]) -> list[ScriptStatement]:
    cursor = Cursor(script, part)
    for words, rest in _TABLES.items():
        if cursor.accept(*words):
            return [rest(cursor)]
    return [*parse(_alone(script, part))]


def _alone(script: str, part: list[Token]) -> str:
    """The script with all but one statement blank, so that places stay what they are."""
    before = "".join("\n" if character == "\n" else " " for character in script[: part[0].start])
    return before + script[part[0].start : part[-1].end + 1]


_TABLES: dict[tuple[str, ...], Callable[[Cursor], ScriptStatement]] = {
    ("COPY",): tables.copy,
    ("LOAD", "TABLE"): tables.load,
    ("DROP", "TABLE"): tables.drop_table,
    ("SHOW", "TABLES"): tables.show_tables,
}
