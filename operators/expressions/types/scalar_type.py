"""What a scalar type is: one record from which casts, rendering and the record formats take what they need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import polars as pl
import pyarrow as pa

Conversion = Callable[[pl.Expr, pa.DataType, pa.DataType], pl.Expr]


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A type as SQL, Arrow, Polars and Avro know it. DECIMAL, arrays and structs have parameters and are none.

    A type that Arrow does not have is a `DistinctType` over the one that stores it; only such a type needs `converts`,
    `read` and `summary`.
    """

    #: The SQL name that the system writes; one that DuckDB understands.
    name: str
    arrow: pa.DataType
    polars: pl.DataType
    #: The types that are cast in the same way have one kind: a row or column of the table of conversions.
    kind: str
    #: The Avro schema that is written: a primitive, or a primitive with its logical type.
    avro: str | Mapping[str, str]
    #: The kinds of Avro types from which it is read as it is.
    avro_reads: frozenset[str] = frozenset()
    #: Other SQL names, upper-case, also those that sqlglot gives a name it parses.
    aliases: tuple[str, ...] = ()
    #: The name in messages about records, where it differs.
    record_name: str = ""
    #: Casts by the kinds of source and target: null where the target has no such value.
    converts: Mapping[tuple[str, str], Conversion] = field(default_factory=dict)
    #: The stored form of a value of a record (a JSON value, a Python value or what Avro stores); None if it is none.
    read: Callable[[object], object | None] | None = None
    #: What `read` takes, in messages.
    form: str = ""
    #: What it stands for, for the reference of types.
    summary: str = ""
