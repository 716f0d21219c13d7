"""The scalar types by SQL name and by Arrow type. A new type is a file here and an entry of `TYPES`."""

import polars as pl
import pyarrow as pa

from operators.core.distinct_type import DistinctType
from operators.expressions.types.calendar import DATE, TIMESTAMP
from operators.expressions.types.numbers import BIGINT, BOOLEAN, DOUBLE, INTEGER, REAL, SMALLINT, TINYINT
from operators.expressions.types.scalar_type import Conversion, ScalarType
from operators.expressions.types.texts import VARBINARY, VARCHAR
from operators.expressions.types.uuid import UUID

#: All scalar types, in the order in which messages list them.
TYPES: tuple[ScalarType, ...] = (
    BOOLEAN,
    TINYINT,
    SMALLINT,
    INTEGER,
    BIGINT,
    REAL,
    DOUBLE,
    VARCHAR,
    VARBINARY,
    DATE,
    TIMESTAMP,
    UUID,
)
BY_ARROW: dict[pa.DataType, ScalarType] = {type_.arrow: type_ for type_ in TYPES}
BY_NAME: dict[str, ScalarType] = {name: type_ for type_ in TYPES for name in (type_.name, *type_.aliases)}

for _type in TYPES:
    if isinstance(_type.arrow, DistinctType):
        pa.register_extension_type(_type.arrow)  # type: ignore[arg-type]  # the stubs want an older class
        pl.register_extension_type(_type.arrow.extension_name, as_storage=True)

__all__ = ["BY_ARROW", "BY_NAME", "TYPES", "Conversion", "ScalarType"]
