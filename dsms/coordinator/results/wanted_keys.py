"""The encoded keys of the rows that a query wants."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from math import prod

import msgspec
import polars as pl
import pyarrow as pa

from connectors.formats.record_formats import FORMATS
from dsms.model.objects import Format
from dsms.tables.equal_values import EqualValues

#: The most keys that are looked up one by one.
_MOST = 1_000
#: Texts that all writers of JSON write alike.
_PLAIN = re.compile(r"[ !#-\[\]-~]*")


def wanted_keys(
    key_schema: pa.Schema, values: EqualValues, form: Format = "json", schema_id: int | None = None
) -> list[bytes] | None:
    """The keys as records have them, for the wanted values of the key columns; None if the values do not determine all
    key columns, or if comparing them needs more than equal integers or texts. `schema_id` is that of keys in Avro.

    >>> wanted_keys(pa.schema([("k", pa.int32())]), {"k": [7, 8], "other": [1]})
    [b'{"k":7}', b'{"k":8}']
    """
    wanted = [values.get(key.lower(), ()) for key in key_schema.names]
    if not wanted or not 0 < prod(map(len, wanted)) <= _MOST:
        return None
    if not all(_comparable(field.type, each) for field, each in zip(key_schema, wanted, strict=True)):
        return None
    rows = list(product(*(sorted(set(each)) for each in wanted)))
    if form == "json" and all(isinstance(value, int) or _PLAIN.fullmatch(value) for each in wanted for value in each):
        return [msgspec.json.encode(dict(zip(key_schema.names, row, strict=True))) for row in rows]
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), key_schema, strict=True)]
    frame = pl.DataFrame(pa.table(columns, schema=key_schema))
    encoded = FORMATS[form].encoder_of(key_schema, schema_id).encode(frame)
    return [bytes(key) for key in encoded]


def _comparable(kind: pa.DataType, values: Sequence[int | str]) -> bool:
    if pa.types.is_signed_integer(kind):
        return all(isinstance(each, int) and abs(each) < 2 ** (kind.bit_width - 1) for each in values)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind)) and all(
        isinstance(each, str) for each in values
    )
