"""The texts of statements that declare columns, after columns were added or dropped.

The law: such a text declares exactly the columns of the object, in their order. It is read again to check that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from dsms.model import statements as st
from dsms.sql.parser.cursor import unquoted_text
from dsms.sql.parser.dialect import Dsms
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
