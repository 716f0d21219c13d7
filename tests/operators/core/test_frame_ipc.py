"""Frames as Arrow IPC streams: pyarrow and Polars read what was written, for all types."""

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pytest

from operators.core.frame_ipc import frame_from_ipc, frame_to_ipc, write_frames

POINT = pl.Struct({"a": pl.Int8, "b": pl.String})
VALUES = {
    "text": pl.Series(["x", None, "", "é" * 40], dtype=pl.String),
    "bytes": pl.Series([b"\0", None, b"", b"z" * 40], dtype=pl.Binary),
    "decimal": pl.Series([Decimal("1.50"), None, Decimal("-" + "9" * 36 + ".99"), None], dtype=pl.Decimal(38, 2)),
    "double": pl.Series([1.5, None, float("inf"), -0.0], dtype=pl.Float64),
    "truth": pl.Series([True, None, False, True]),
    "day": pl.Series([date(2024, 2, 29), None, None, date(1, 1, 1)]),
    "moment": pl.Series([1_709_168_400_000_000, None, None, None]).cast(pl.Datetime("us")),
    "zoned": pl.Series([datetime(2024, 2, 29, 1, tzinfo=UTC), None, None, None], dtype=pl.Datetime("us", "UTC")),
    "clock": pl.Series([time(1, 2, 3), None, None, None]),
    "span": pl.Series([timedelta(1), None, None, None], dtype=pl.Duration("us")),
    "list": pl.Series([["a", None], None, [], ["b"]], dtype=pl.List(pl.String)),
    "struct": pl.Series([{"a": 1, "b": "x"}, None, {"a": None, "b": None}, None], dtype=POINT),
    "structs": pl.Series([[{"a": 1, "b": "x"}], None, [], [None]], dtype=pl.List(POINT)),
    "wide": pl.Series([2**100, None, -(2**127), 0], dtype=pl.Int128),
    "wides": pl.Series([[2**100], None, [], [None]], dtype=pl.List(pl.Int128)),
    "hash": pl.Series([2**64 - 1, None, 0, 1], dtype=pl.UInt64),
    "null": pl.Series([None] * 4, dtype=pl.Null),
}


@pytest.mark.parametrize("name", VALUES)
def test_frames_round_trip_with_their_types(name: str) -> None:
    for frame in (VALUES[name].to_frame(), VALUES[name].to_frame().clear(), VALUES[name].to_frame()[1:3]):
        back = frame_from_ipc(frame_to_ipc(frame))
        assert back.schema == frame.schema
        assert back.rows() == frame.rows()


def test_another_reader_reads_the_stream() -> None:
    frame = pl.DataFrame([VALUES[name].alias(name) for name in VALUES if not name.startswith("wide")])
    table = pa.ipc.open_stream(frame_to_ipc(frame)).read_all()
    assert table["text"].to_pylist() == ["x", None, "", "é" * 40]
    assert table["bytes"].to_pylist() == [b"\0", None, b"", b"z" * 40]
    assert table["list"].to_pylist() == [["a", None], None, [], ["b"]]


def test_concatenated_ipc_streams_are_read_separately() -> None:
    out, frames = pa.BufferOutputStream(), [VALUES["text"].to_frame(), VALUES["wide"].to_frame()]
    ends = [0]
    for frame in frames:
        write_frames([frame], out)
        ends.append(out.tell())
    whole = out.getvalue().to_pybytes()
    parts = [frame_from_ipc(whole[start:end]) for start, end in zip(ends, ends[1:], strict=False)]
    assert [part.rows() for part in parts] == [frame.rows() for frame in frames]


def test_chunks_and_gathered_views_are_written_whole() -> None:
    text = pl.Series("t", [f"{number:030}" for number in range(1000)])
    frame = pl.concat([text.to_frame(), text.gather(range(0, 1000, 7)).to_frame()], rechunk=False)
    assert frame_from_ipc(frame_to_ipc(frame))["t"].to_list() == [
        *(f"{number:030}" for number in range(1000)),
        *(f"{number:030}" for number in range(0, 1000, 7)),
    ]
