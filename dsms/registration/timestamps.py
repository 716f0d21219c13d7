"""The timestamps of a stream that is declared with its columns: external, internal or latent (ESL, section 2)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from dsms.model import statements as st
from dsms.model.types import parse_type, type_sql
from operators.core.errors import UserError

#: The column of the instant of arrival, which ESL reserves.
CURRENT_TIME: Final = "current_time"


@dataclass(frozen=True)
class DeclaredTimestamps:
    """What the timestamps of a declared stream determine of its source: columns, the TIMESTAMP clause, settings that no
    clause can give, and notices for the user."""

    columns: tuple[st.ColumnDefinition, ...]
    clauses: tuple[st.Clause, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict)
    notices: tuple[str, ...] = ()


def declared_timestamps(statement: st.DeclareStream) -> DeclaredTimestamps:
    """The timestamps of a declared stream: internal if ORDER BY or ORDERED BY names `current_time`, external if it
    names another column, latent without such a clause. Raises SqlError if the named column does not exist.

    >>> from dsms.statements.registry import parse
    >>> declared_timestamps(parse("CREATE STREAM S (a INT, at BIGINT) ORDER BY at")[0]).clauses[0].words
    ('BY', 'at')
    >>> declared_timestamps(parse("CREATE STREAM S (a INT)")[0]).notices
    ('latent timestamps: a record has the instant of its arrival',)
    """
    column = _ordering(statement)
    latent = (st.Clause("timestamp", ("LATENT",), statement.name.place),)
    if column is None:
        if any(clause.name == "timestamp" for clause in statement.clauses):
            return DeclaredTimestamps(statement.columns)
        notice = "latent timestamps: a record has the instant of its arrival"
        return DeclaredTimestamps(statement.columns, latent, notices=(notice,))
    rest = tuple(other for other in statement.columns if other is not column) if statement.hidden else statement.columns
    if column.name.text.lower() == CURRENT_TIME:
        _check_arrival(column)
        settings: dict[str, object] = {} if statement.hidden else {"arrival": column.name.text}
        notice = f"internal timestamps: {column.name.text} is the instant of arrival"
        return DeclaredTimestamps(rest, latent, settings, (notice,))
    by = (st.Clause("timestamp", ("BY", column.name.text), column.name.place),)
    settings = {"timestamp_type": type_sql(type_of(column))} if statement.hidden else {}
    return DeclaredTimestamps(rest, by, settings, (f"external timestamps: the column {column.name.text}",))


def _ordering(statement: st.DeclareStream) -> st.ColumnDefinition | None:
    """The timestamp column, which ORDERED BY or ORDER BY names."""
    ordered = statement.ordered
    if ordered is None:
        return None
    for column in statement.columns:
        if column.name.text.lower() == ordered.text.lower():
            return column
    have = ", ".join(column.name.text for column in statement.columns)
    raise ordered.place.error(f'column "{ordered.text}" not found in "{statement.name.text}"', f"have: {have}")


def _check_arrival(column: st.ColumnDefinition) -> None:
    kind = type_of(column)
    if not (pa.types.is_timestamp(kind) or pa.types.is_int64(kind)):
        raise column.name.place.error(
            f'"{column.name.text}" holds the instant of arrival, so its type must be TIMESTAMP or BIGINT, '
            f"not {type_sql(kind)}"
        )


def type_of(definition: st.ColumnDefinition) -> pa.DataType:
    """The type of a declared column. Raises SqlError."""
    try:
        return parse_type(definition.type)
    except UserError as error:
        message = re.sub(r"^line \d+, column \d+: ", "", error.message)
        raise definition.name.place.error(f'column "{definition.name.text}": {message}', error.hint) from error
