"""Lines of comma-separated values, as Python's and DuckDB's writers write them."""

from __future__ import annotations

import csv
import datetime
import io
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.formats import CsvDecoder
from tests.support import duck_engine

COLUMNS = pa.schema(
    [
        pa.field("i", pa.int64()),
        pa.field("x", pa.float64()),
        pa.field("m", pa.decimal128(9, 2)),
        pa.field("b", pa.bool_()),
        pa.field("t", pa.string()),
        pa.field("d", pa.date32()),
        pa.field("h", pa.timestamp("us")),
    ]
)
#: Texts without line ends, since a line is one record; none is empty, since an empty text is NULL.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), min_size=1, max_size=6)
ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-(2**63), 2**63 - 1),
        st.none() | st.floats(allow_nan=False, allow_infinity=False),
        st.none() | st.decimals(-1_000_000, 1_000_000, places=2),
        st.none() | st.booleans(),
        st.none() | TEXT,
        st.none() | st.dates(datetime.date(1600, 1, 1)),
        st.none() | st.datetimes(datetime.datetime(1600, 1, 1), datetime.datetime(2200, 1, 1)),  # noqa: DTZ001
    ),
    max_size=6,
)


def lines(rows: list[tuple], delimited: type[csv.Dialect] = csv.excel) -> list[bytes]:
    written = []
    for row in rows:
        text = io.StringIO()
        csv.writer(text, delimited).writerow(
            value.isoformat() if isinstance(value, datetime.date) else value for value in row
        )
        written.append(text.getvalue().encode())
    return written


@given(ROWS, st.sampled_from([csv.excel, csv.unix_dialect]))
def test_csv_written_by_python_is_read_back(rows: list[tuple], dialect: type[csv.Dialect]) -> None:
    result = CsvDecoder(COLUMNS).decode(lines(rows, dialect))
    assert result.refused == ()
    assert result.frame.rows() == rows


def test_csv_written_by_duckdb_is_read_back(tmp_path: Path) -> None:
    duck, path = duck_engine.connection(), tmp_path / "rows.csv"
    duck.execute(
        f"""COPY (SELECT i, i / 7, (i / 3)::DECIMAL(9, 2), i % 2 = 0, 'a, "' || i, DATE '2024-01-01' + i::INT,
                TIMESTAMP '2024-01-01 07:00:00.25' + INTERVAL 1 HOUR * i FROM range(20) t(i))
            TO '{path}' (HEADER false)"""
    )
    result = CsvDecoder(COLUMNS).decode(path.read_bytes().splitlines())
    assert result.refused == ()
    hour = datetime.timedelta(hours=1)
    first = datetime.datetime(2024, 1, 1, 7, 0, 0, 250_000)  # noqa: DTZ001
    assert result.frame.rows() == [
        (
            i,
            i / 7,
            round(Decimal(i) / 3, 2),
            i % 2 == 0,
            f'a, "{i}',
            datetime.date(2024, 1, 1) + datetime.timedelta(i),
            first + i * hour,
        )
        for i in range(20)
    ]


REFUSED = [
    (b"x", 'column "i": expected BIGINT, got "x"'),
    (b"9223372036854775808", "BIGINT"),
    (b"1,.", 'column "x": expected DOUBLE'),
    (b"1,1e999", "DOUBLE"),
    (b"1,2,1.234", "more digits"),
    (b"1,2,3,maybe", "BOOLEAN"),
    (b"1,2,3,t,a,2024-02-30", "DATE"),
    (b"1,2,3,t,a,2024-02-03,noon", "TIMESTAMP"),
    (b"1,2,3,t,a,,,8", "the line has 8 fields, but there are 7 columns"),
    (b'1,"2', "not a line of comma-separated values"),
    (b"\xff", "not a line of comma-separated values"),
    (b"1,2,3,t,a\nb", "not a line of comma-separated values"),
]


@pytest.mark.parametrize(("value", "why"), REFUSED)
def test_invalid_lines_are_refused_and_others_are_kept(value: bytes, why: str) -> None:
    result = CsvDecoder(COLUMNS).decode([b"1", value, b"2"])
    assert result.frame["i"].to_list() == [1, 2] and result.kept is not None and result.kept.tolist() == [0, 2]
    (refusal,) = result.refused
    assert refusal.index == 1 and why in refusal.message


def test_missing_fields_are_null_and_refused_in_not_null_columns() -> None:
    needed = pa.schema([pa.field("a", pa.int32(), nullable=False), pa.field("b", pa.int32())])
    result = CsvDecoder(needed).decode([b"1", b"1,", b"", b",1"])
    assert result.frame.rows() == [(1, None), (1, None)]
    assert [refusal.message for refusal in result.refused] == [
        "the line is empty",
        'column "a" is NULL but declared NOT NULL',
    ]


def test_long_fields_are_read() -> None:
    text = "x" * 1_000_000
    assert CsvDecoder(pa.schema([("t", pa.string())])).decode([text.encode()]).frame["t"].to_list() == [text]


@given(st.binary(max_size=30))
def test_any_bytes_give_a_row_or_are_refused(value: bytes) -> None:
    result = CsvDecoder(COLUMNS).decode([value])
    assert len(result.frame) + len(result.refused) == 1
