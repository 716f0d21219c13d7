"""DATE and TIMESTAMP. Their logical Avro types, which decide the unit, are read in `connectors/formats`."""

import polars as pl
import pyarrow as pa

from operators.expressions.types.scalar_type import ScalarType

DATE = ScalarType("DATE", pa.date32(), pl.Date(), "date", {"type": "int", "logicalType": "date"})
TIMESTAMP = ScalarType(
    "TIMESTAMP",
    pa.timestamp("us"),
    pl.Datetime("us"),
    "timestamp",
    {"type": "long", "logicalType": "timestamp-micros"},
    aliases=("TIMESTAMPNTZ", "DATETIME"),
)
