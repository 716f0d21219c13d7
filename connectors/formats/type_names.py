"""The SQL names of Arrow types, for messages."""

import pyarrow as pa

from operators.expressions.types import BY_ARROW


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
    scalar = BY_ARROW.get(declared)
    return str(declared) if scalar is None else scalar.record_name or scalar.name
