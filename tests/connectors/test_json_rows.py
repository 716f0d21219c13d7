"""Rows that are decoded one by one equal those that the decoder of columns returns."""

from __future__ import annotations

import datetime as dt

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.formats import JsonDecoder, JsonEncoder
from connectors.formats.json_rows import JsonRows

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int32(), nullable=False),
        ("big", pa.int64()),
        ("name", pa.string()),
        ("x", pa.float64()),
        ("yes", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
    ]
)
TIMES = st.datetimes()
ROWS = st.tuples(
    st.integers(-(2**31), 2**31 - 1),
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.text(st.characters(codec="utf-8")),
    st.none() | st.floats(allow_nan=False),
    st.none() | st.booleans(),
    st.none() | TIMES.map(dt.datetime.date),
    st.none() | TIMES,
)


@given(ROWS)
def test_rows_that_the_system_has_written(row: tuple[object, ...]) -> None:
    table = pa.table([pa.array([value], field.type) for value, field in zip(row, SCHEMA, strict=True)], schema=SCHEMA)
    found = JsonRows.of(SCHEMA)
    assert found is not None
    decoded = found.decoded(JsonEncoder(SCHEMA).encode(pl.DataFrame(table)).to_list())
    infinite = row[3] in (float("inf"), float("-inf"))
    assert decoded == (None if infinite else [row])


@pytest.mark.parametrize(
    "value",
    [
        "{}",
        "7",
        "nothing",
        '{"k":1.5,"s":"a"}',
        '{"k":1e2,"s":"a"}',
        '{"k":2147483648,"s":"a"}',
        '{"k":null,"s":"a"}',
        '{"k":1}',
        '{"K":1,"s":"a"}',
        '{"k":1,"s":7}',
        '{"k":1,"s":"a","more":1}',
        '{"k":1,"s":"a","s":"b"}',
        '{"k":1,"s":"\\ud800"}',
        '{"k":1,"s":null}',
    ],
)
def test_values_that_others_have_written(value: str) -> None:
    schema = pa.schema([pa.field("k", pa.int32(), nullable=False), ("s", pa.string())])
    rows = JsonRows.of(schema)
    assert rows is not None
    if (found := rows.decoded([value.encode()])) is not None:
        assert found == JsonDecoder(schema).decode([value.encode()]).frame.rows()


@pytest.mark.parametrize("time", ["2026-01-01T00:00:00", "2026-01-01T01:00:00+01:00", "2026-13-01T00:00:00Z", "5"])
def test_other_spellings_of_times_are_left_to_the_decoder_of_columns(time: str) -> None:
    rows = JsonRows.of(pa.schema([("at", pa.timestamp("us"))]))
    assert rows is not None
    assert rows.decoded([b'{"at":"%b"}' % time.encode()]) is None


def test_other_types_are_left_to_the_decoder_of_columns() -> None:
    assert JsonRows.of(pa.schema([("d", pa.decimal128(5, 2))])) is None
