"""Schema resolution: finds the writer's field for each declared column and checks that its type can be read."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from connectors.formats.avro_columns import Column
from connectors.formats.avro_types import AvroField, AvroType
from connectors.formats.base import ValueMismatch
from connectors.formats.connect_names import ISO_DATE, ISO_TIMESTAMPS, VARIABLE_DECIMAL
from connectors.formats.type_names import type_name
from operators.core.distinct_type import stored
from operators.expressions.types import BY_ARROW

_INTEGERS = frozenset({"int", "long"})
_INSTANTS = frozenset(f"{zone}timestamp-{unit}" for zone in ("", "local-") for unit in ("millis", "micros", "nanos"))


def resolve(writer: AvroType, declared: Sequence["pa.Field[Any]"]) -> tuple[Column, ...]:
    """The declared columns with their fields in a writer's record. Raises ValueMismatch if a column cannot be read.

    >>> resolve(AvroType("record", fields=(AvroField("A", AvroType("int")),)), [pa.field("a", pa.int64())])[0].source
    0
    """
    return tuple(_column(writer.fields, field) for field in declared)


def _column(fields: Sequence[AvroField], declared: "pa.Field[Any]") -> Column:
    source = _find(fields, declared.name)
    if source is None:
        if declared.nullable:
            return Column(declared, None, None)
        raise ValueMismatch(" is missing in the writer schema but declared NOT NULL", (declared.name,))
    writer = fields[source].type
    try:
        if not readable(writer, declared.type):
            raise ValueMismatch(f": Avro {_avro_name(writer)} cannot be read as {type_name(declared.type)}")
        children = resolve(writer, list(declared.type)) if _is_record(writer, declared.type) else ()
    except ValueMismatch as mismatch:
        raise mismatch.under(declared.name) from None
    return Column(declared, source, writer, children)


def _find(fields: Sequence[AvroField], name: str) -> int | None:
    exact = [i for i, field in enumerate(fields) if field.name == name]
    matches = exact or [i for i, field in enumerate(fields) if field.name.casefold() == name.casefold()]
    if len(matches) > 1:
        names = ", ".join(f'"{fields[i].name}"' for i in matches)
        raise ValueMismatch(f" matches several fields of the writer schema: {names}", (name,))
    return matches[0] if matches else None


def _is_record(writer: AvroType, declared: pa.DataType) -> bool:
    return writer.kind == "record" and pa.types.is_struct(declared)


def readable(writer: AvroType, declared: pa.DataType) -> bool:
    """Whether values of the writer's type can be values of the declared type.

    >>> readable(AvroType("int"), pa.float64()), readable(AvroType("string"), pa.int32())
    (True, False)
    """
    if writer.kind == "union":
        return any(branch.kind != "null" and readable(branch, declared) for branch in writer.branches)
    if writer.kind in ("null", "recursive", "map"):
        return writer.kind == "null"
    if pa.types.is_list(declared):
        return writer.kind == "array" and readable(writer.branches[0], declared.value_type)
    if pa.types.is_struct(declared):
        return writer.kind == "record"
    if pa.types.is_decimal(declared):
        scaled = writer.logical == "decimal" and writer.kind in ("bytes", "fixed")
        return scaled or _variable_decimal(writer) or (writer.kind in _INTEGERS)
    return _readable_scalar(writer, declared)


def _readable_scalar(writer: AvroType, declared: pa.DataType) -> bool:
    day = writer.kind == "int" and writer.logical == "date"
    if pa.types.is_date(declared):
        return day or (writer.kind == "string" and writer.logical == ISO_DATE)
    if pa.types.is_timestamp(declared):
        plain = writer.kind == "long" and writer.logical in _INSTANTS | {""}
        return plain or day or (writer.kind == "string" and writer.logical in ISO_TIMESTAMPS)
    if writer.logical == "decimal" and pa.types.is_string(declared):
        return False
    if writer.kind == "fixed" and pa.types.is_string(stored(declared)):
        return writer.logical == "uuid" and writer.size == 16
    return writer.kind in BY_ARROW[declared].avro_reads


def _variable_decimal(writer: AvroType) -> bool:
    kinds = {field.name: field.type.kind for field in writer.fields}
    return writer.logical == VARIABLE_DECIMAL and kinds == {"scale": "int", "value": "bytes"}


def _avro_name(writer: AvroType) -> str:
    return f"{writer.kind} ({writer.logical})" if writer.logical else writer.kind
