"""Decodes JSON in Confluent's wire format: a zero byte, four bytes of schema id, the JSON text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

import numpy as np
import pyarrow as pa

from connectors.formats.avro_buffer import WIRE_HEADER_BYTES
from connectors.formats.base import Decoded, Refusal
from connectors.formats.json_decode import JsonDecoder
from connectors.formats.wire_format import framing_fault


class JsonSchemaDecoder:
    """Decodes such records into the declared columns. It checks them against the columns, not against their JSON
    schema.

    >>> decoder = JsonSchemaDecoder(pa.schema([pa.field("a", pa.int64())]))
    >>> result = decoder.decode([b'\\0\\0\\0\\0\\7{"a": 1}', b'{"a": 2}'])
    >>> result.frame.rows(), result.refused[0].message
    ([(1,)], "not in Confluent's wire format: the first byte is 123 instead of 0")
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._rows = JsonDecoder(schema)

    def decode(self, values: Sequence[bytes]) -> Decoded:
        """Decodes each record to a row, or refuses it."""
        faults = [framing_fault(value) for value in values]
        framed = [not fault for fault in faults]
        result = self._rows.decode([value[WIRE_HEADER_BYTES:] for value in compress(values, framed)])
        if all(framed):
            return result
        at = np.flatnonzero(framed)
        kept = at if result.kept is None else at[result.kept]
        inner = [Refusal(int(at[refusal.index]), refusal.message) for refusal in result.refused]
        outer = [Refusal(index, fault) for index, fault in enumerate(faults) if fault]
        return Decoded(result.frame, kept, tuple(sorted((*inner, *outer), key=lambda refusal: refusal.index)))

    def field_names(self, value: bytes) -> frozenset[str]:
        """The case-folded keys of a decoded object."""
        return self._rows.field_names(value[WIRE_HEADER_BYTES:])
