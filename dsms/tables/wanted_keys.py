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
from dsms.tables.equal_values import EqualValues, whole_number

#: The most keys that are looked up one by one.
_MOST = 1_000
#: Texts that all writers of JSON write alike.
_PLAIN = re.compile(r"[ !#-\[\]-~]*")


class KeyWriter:
    """Writes keys with these columns as records have them. `schema_id` is that of keys in Avro."""

    def __init__(self, key_schema: pa.Schema, form: Format = "json", schema_id: int | None = None) -> None:
        self._schema, self._form, self._schema_id = key_schema, form, schema_id
        self._names, self._lower = key_schema.names, [name.lower() for name in key_schema.names]
        self._bounds = [_bound(kind) for kind in key_schema.types]

    def wanted(self, values: EqualValues) -> list[bytes] | None:
        """The keys, for the wanted values of the key columns; None if the values do not determine all key columns, or
        if comparing them needs more than equal integers or texts.

        >>> KeyWriter(pa.schema([("k", pa.int32())])).wanted({"k": [7, 8], "other": [1]})
        [b'{"k":7}', b'{"k":8}']
        """
        given = [values.get(key, ()) for key in self._lower]
        if not given or not 0 < prod(map(len, given)) <= _MOST:
            return None
        found = [_comparable(bound, each) for bound, each in zip(self._bounds, given, strict=True)]
        rows = list(product(*(sorted(set(each)) for each in found if each is not None)))
        return None if None in found else self._written(rows)

    def _written(self, rows: list[tuple[int | str, ...]]) -> list[bytes]:
        if self._form == "json" and all(isinstance(one, int) or _PLAIN.fullmatch(one) for row in rows for one in row):
            return [msgspec.json.encode(dict(zip(self._names, row, strict=True))) for row in rows]
        kinds = self._schema.types
        columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
        frame = pl.DataFrame(pa.table(columns, schema=self._schema))
        return [bytes(key) for key in FORMATS[self._form].encoder_of(self._schema, self._schema_id).encode(frame)]


def _bound(kind: pa.DataType) -> int | None:
    """The first integer that a column does not hold, 0 for a column of texts; None if it holds anything else."""
    if pa.types.is_signed_integer(kind):
        return int(2 ** (kind.bit_width - 1))
    return 0 if pa.types.is_string(kind) or pa.types.is_large_string(kind) else None


def _comparable(bound: int | None, values: Sequence[int | str]) -> Sequence[int | str] | None:
    """The values if comparing them with the column needs no more than equal integers or texts, otherwise None. Texts
    that are compared with integers are read as integers, as the language does."""
    if not bound:
        return values if bound == 0 and all(isinstance(each, str) for each in values) else None
    numbers = [whole_number(each) for each in values]
    known = [each for each in numbers if each is not None and abs(each) < bound]
    return known if len(known) == len(numbers) else None
