"""VARCHAR and VARBINARY."""

import polars as pl
import pyarrow as pa

from operators.expressions.types.scalar_type import ScalarType

VARCHAR = ScalarType(
    "VARCHAR",
    pa.string(),
    pl.String(),
    "text",
    "string",
    frozenset({"string", "bytes", "enum"}),
    ("CHAR", "NCHAR", "NVARCHAR", "TEXT", "STRING"),
    "STRING",
)
VARBINARY = ScalarType(
    "VARBINARY",
    pa.binary(),
    pl.Binary(),
    "binary",
    "bytes",
    frozenset({"string", "bytes", "fixed"}),
    ("BINARY", "BLOB", "BYTES"),
    "BYTES",
)
