"""JSON in Confluent's wire format, whose schema is in a registry: a zero byte, four bytes of schema id, the JSON."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

import numpy as np
import pyarrow as pa

from connectors.formats.avro_buffer import PREFIX
from connectors.formats.base import Decoded, Refusal
from connectors.formats.json_decode import JsonDecoder


class JsonSchemaDecoder:
    """Decodes such records into the declared columns. They are checked against these, not against their schema.

    >>> decoder = JsonSchemaDecoder(pa.schema([pa.field("a", pa.int64())]))
    >>> result = decoder.decode([b'\\0\\0\\0\\0\\7{"a": 1}', b'{"a": 2}'])
    >>> result.frame.rows(), result.refused[0].message
    ([(1,)], "not in Confluent's wire format: the first byte is 123 instead of 0")
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._rows = JsonDecoder(schema)

    def decode(self, values: Sequence[bytes]) -> Decoded:
        """The rows of the records, and a refusal for each value that is none."""
        framed = [len(value) >= PREFIX and value[0] == 0 for value in values]
        result = self._rows.decode([value[PREFIX:] for value in compress(values, framed)])
        if all(framed):
            return result
        at = np.flatnonzero(framed)
        kept = at if result.kept is None else at[result.kept]
        inner = [Refusal(int(at[refusal.index]), refusal.message) for refusal in result.refused]
        outer = [Refusal(index, _reason(values[index])) for index, fits in enumerate(framed) if not fits]
        return Decoded(result.frame, kept, tuple(sorted((*inner, *outer), key=lambda refusal: refusal.index)))


def _reason(value: bytes) -> str:
    if len(value) < PREFIX:
        return f"not in Confluent's wire format: {len(value)} bytes"
    return f"not in Confluent's wire format: the first byte is {value[0]} instead of 0"
