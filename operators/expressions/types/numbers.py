"""BOOLEAN, integers and floats."""

import polars as pl
import pyarrow as pa

from operators.expressions.types.scalar_type import ScalarType

_INTEGERS = frozenset({"int", "long"})
_NUMBERS = frozenset({"int", "long", "float", "double"})

BOOLEAN = ScalarType("BOOLEAN", pa.bool_(), pl.Boolean(), "boolean", "boolean", frozenset({"boolean"}))
TINYINT = ScalarType("TINYINT", pa.int8(), pl.Int8(), "integer", "int", _INTEGERS, ("INT1",))
SMALLINT = ScalarType("SMALLINT", pa.int16(), pl.Int16(), "integer", "int", _INTEGERS)
INTEGER = ScalarType("INTEGER", pa.int32(), pl.Int32(), "integer", "int", _INTEGERS, ("INT", "MEDIUMINT"), "INT")
BIGINT = ScalarType("BIGINT", pa.int64(), pl.Int64(), "integer", "long", _INTEGERS, ("LONG",))
REAL = ScalarType("REAL", pa.float32(), pl.Float32(), "float", "float", _NUMBERS, ("FLOAT",))
DOUBLE = ScalarType("DOUBLE", pa.float64(), pl.Float64(), "float", "double", _NUMBERS)
