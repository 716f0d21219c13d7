"""The encoded keys of the rows that a query wants."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import polars as pl
import pyarrow as pa

from connectors.formats.record_formats import FORMATS
from dsms.model.objects import Query
from dsms.tables.equal_values import EqualValues

#: The most keys that are looked up one by one.
_MOST = 1_000


def wanted_keys(query: Query, schema: pa.Schema, keys: Sequence[str], values: EqualValues) -> list[bytes] | None:
    """The keys of a result as its records have them, for the wanted values of its key columns; None if the values do
    not determine all key columns, or if comparing them needs more than equal integers or texts.

    >>> query = Query(name="q", id="o1", sql="", kind="view", select="", topic="q")
    >>> wanted_keys(query, pa.schema([("k", pa.int32()), ("v", pa.int32())]), ["k"], {"k": [7, 8]})
    [b'{"k":7}', b'{"k":8}']
    """
    key_schema = pa.schema([schema.field(key) for key in keys])
    wanted = [values.get(key.lower(), ()) for key in keys]
    if not keys or not 0 < prod(map(len, wanted)) <= _MOST:
        return None
    if not all(_comparable(field.type, each) for field, each in zip(key_schema, wanted, strict=True)):
        return None
    rows = list(product(*(sorted(set(each)) for each in wanted)))
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), key_schema, strict=True)]
    frame = pl.DataFrame(pa.table(columns, schema=key_schema))
    encoded = FORMATS[query.format].encoder_of(key_schema, query.key_schema_id).encode(frame)
    return [bytes(key) for key in encoded]


def _comparable(kind: pa.DataType, values: Sequence[int | str]) -> bool:
    if pa.types.is_signed_integer(kind):
        return all(isinstance(each, int) and abs(each) < 2 ** (kind.bit_width - 1) for each in values)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind)) and all(
        isinstance(each, str) for each in values
    )
