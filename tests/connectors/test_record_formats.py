"""Every registered record format reads back the rows that it has written."""

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given

from connectors.formats.record_formats import FORMATS, RESULT_FORMATS
from connectors.kafka.schema_registry.registry import Registry
from tests.connectors.formats_strategies import all_types, tables

ID = 7


@pytest.mark.parametrize("name", RESULT_FORMATS)
def test_own_records_are_read_back(name: str) -> None:
    @given(tables(all_types))
    def round_trip(table: pa.Table) -> None:
        frame = pl.from_arrow(table)
        assert isinstance(frame, pl.DataFrame)
        values = FORMATS[name].encoder_of(table.schema, ID).encode(frame)
        decoded = FORMATS[name].decoder_of_written(table.schema).decode(values.to_list())
        assert decoded.refused == () and decoded.frame.equals(frame)

    round_trip()


def test_an_avro_encoder_needs_a_registered_schema() -> None:
    with pytest.raises(AssertionError, match="id of a registered schema"):
        FORMATS["avro"].encoder_of(pa.schema([("a", pa.int64())]), None)


def test_json_codec_round_trips() -> None:
    codec = FORMATS["json"].codec_of(Registry("http://unused", ours=True), "topic")
    assert codec.decode(codec.encode({"a": 1}, key=False), key=False) == {"a": 1}
