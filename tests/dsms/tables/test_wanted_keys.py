"""The keys of a lookup are those that the encoder of records writes."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from connectors.formats import JsonEncoder
from dsms.tables.wanted_keys import KeyWriter

SCHEMA = pa.schema([("k", pa.int64()), ("Name é", pa.string())])


@given(st.integers(-(2**63) + 1, 2**63 - 1), st.text(st.characters(codec="utf-8")))
def test_keys_are_spelled_as_in_records(number: int, text: str) -> None:
    frame = pl.DataFrame({"k": [number], "Name é": [text]})
    assert KeyWriter(SCHEMA).wanted({"k": [number], "name é": [text]}) == JsonEncoder(SCHEMA).encode(frame).to_list()


def test_texts_that_are_compared_with_integers() -> None:
    schema = pa.schema([("k", pa.int32())])
    assert KeyWriter(schema).wanted({"k": ["7", -8]}) == [b'{"k":-8}', b'{"k":7}']
    assert KeyWriter(schema).wanted({"k": ["7x"]}) is None
    assert KeyWriter(schema).wanted({"k": ["99999999999"]}) is None
    assert KeyWriter(pa.schema([("k", pa.string())])).wanted({"k": [7]}) is None
