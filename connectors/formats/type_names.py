"""The SQL names of the Arrow types, for messages."""

import pyarrow as pa

_NAMES = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "REAL",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BYTES",
    pa.date32(): "DATE",
    pa.timestamp("us"): "TIMESTAMP",
}


def type_name(declared: pa.DataType) -> str:
    """The SQL name of a type.

    >>> type_name(pa.list_(pa.decimal128(9, 2)))
    'DECIMAL(9, 2)[]'
    """
    if pa.types.is_decimal(declared):
        return f"DECIMAL({declared.precision}, {declared.scale})"
    if pa.types.is_list(declared):
        return f"{type_name(declared.value_type)}[]"
    if pa.types.is_struct(declared):
        return f"STRUCT<{', '.join(f'{field.name} {type_name(field.type)}' for field in declared)}>"
    return _NAMES.get(declared, str(declared))
