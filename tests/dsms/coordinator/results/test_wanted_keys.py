"""The keys of a lookup are those that the encoder of records writes."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from connectors.formats import JsonEncoder
from dsms.coordinator.results.wanted_keys import wanted_keys

SCHEMA = pa.schema([("k", pa.int64()), ("Name é", pa.string())])


@given(st.integers(-(2**63) + 1, 2**63 - 1), st.text(st.characters(codec="utf-8")))
def test_keys_are_spelled_as_in_records(number: int, text: str) -> None:
    frame = pl.DataFrame({"k": [number], "Name é": [text]})
    assert wanted_keys(SCHEMA, {"k": [number], "name é": [text]}) == JsonEncoder(SCHEMA).encode(frame).to_list()
