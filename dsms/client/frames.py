"""Rows of JSON as Polars frames and Arrow tables, in the types of their columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from operators.core.errors import InternalError, UserError

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa


def schema_of(columns: Sequence[str], types: Sequence[str]) -> pa.Schema:
    """The schema of columns with these names and SQL types. A distinct type is replaced by the type that stores it.

    >>> schema_of(["room", "t"], ["VARCHAR", "DECIMAL(5, 2)"]).types
    [DataType(string), Decimal128Type(decimal128(5, 2))]
    """
    with _whole_package():
        import pyarrow as pa

        from dsms.model.types import parse_type
        from operators.core.distinct_type import stored_schema

    fields = [pa.field(name, parse_type(type_)) for name, type_ in zip(columns, types, strict=True)]
    return stored_schema(pa.schema(fields))


def polars_frame(rows: Iterable[dict[str, Any]], columns: Sequence[str], types: Sequence[str]) -> pl.DataFrame:
    """Rows of JSON values as a Polars frame; a column that a row does not have is NULL.

    >>> polars_frame([{"room": "a", "at": "2026-01-01 12:00:00"}], ["room", "at"], ["VARCHAR", "TIMESTAMP"]).rows()
    [('a', datetime.datetime(2026, 1, 1, 12, 0))]
    """
    with _whole_package():
        from connectors.formats.json_decode import JsonDecoder

    decoded = JsonDecoder(schema_of(columns, types)).decode([msgspec.json.encode(row) for row in rows])
    if decoded.refused:
        raise InternalError(f"a row does not have the types of its result: {decoded.refused[0].message}")
    return decoded.frame


def arrow_table(rows: Iterable[dict[str, Any]], columns: Sequence[str], types: Sequence[str]) -> pa.Table:
    """Rows of JSON values as an Arrow table, in the types of the columns."""
    return polars_frame(rows, columns, types).to_arrow().cast(schema_of(columns, types))


@contextmanager
def _whole_package() -> Iterator[None]:
    """Raises UserError instead of ModuleNotFoundError: the package dsms-client has no decoders."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UserError(
            f'results as tables need the package dsms; "{error.name}" is not installed',
            hint="install dsms instead of dsms-client, or use the rows: Relation.rows, Change.values",
        ) from error
