"""The record that describes a scalar type; casts, rendering and record formats read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import polars as pl
import pyarrow as pa

Conversion = Callable[[pl.Expr, pa.DataType, pa.DataType], pl.Expr]


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A type in SQL, Arrow, Polars and Avro. DECIMAL, arrays and structs have parameters and are not scalar types.

    A type that Arrow does not have is a `DistinctType` over the type that stores it; only such a type needs `converts`,
    `read` and `summary`.
    """

    #: The SQL name that the system writes; one that DuckDB understands.
    name: str
    arrow: pa.DataType
    polars: pl.DataType
    #: Types of the same kind are cast in the same way; the table of conversions has a row and a column for each kind.
    kind: str
    #: The Avro schema that is written: a primitive, or a primitive with its logical type.
    avro: str | Mapping[str, str]
    #: The kinds of Avro types from which values are read as they are.
    avro_reads: frozenset[str] = frozenset()
    #: Other SQL names, upper-case, including the names that sqlglot substitutes for those it parses.
    aliases: tuple[str, ...] = ()
    #: The name in messages about records, where it differs.
    record_name: str = ""
    #: Casts by the kinds of source and target; they return null where the target has no such value.
    converts: Mapping[tuple[str, str], Conversion] = field(default_factory=dict)
    #: Returns the stored form of a record's value (a JSON value, a Python value or what Avro stores); None if invalid.
    read: Callable[[object], object | None] | None = None
    #: A description of the values that `read` takes, for messages.
    form: str = ""
    #: A description of the type for the reference of types.
    summary: str = ""
