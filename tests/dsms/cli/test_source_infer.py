"""`dsms source infer`: the proposed statements can be run and read the records from which they were inferred."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.formats import JsonDecoder
from dsms.cli.source import Sample, proposal
from dsms.model.objects import Source
from dsms.runtime.stages.intake import reading_schema
from dsms.testing import LocalSession
from operators.core.errors import UserError

DATES = st.dates().map(str)
VALUES = {
    "b": st.booleans(),
    "n": st.integers(-(2**63), 2**63 - 1),
    "N": st.integers(0, 9),
    "big": st.integers(-(10**30), 10**30),
    "x": st.floats(allow_nan=False, allow_infinity=False),
    "t": st.text(max_size=4),
    "d": DATES,
    "h": DATES.map(lambda text: f"{text}T07:00:00Z"),
    "items": st.lists(st.integers(0, 9), max_size=2),
    "point": st.fixed_dictionaries(
        {"x": st.integers(0, 9)}, optional={"STRING_label": st.text(max_size=3), "a b": st.integers(0, 9)}
    ),
    "mixed": st.booleans() | st.text(max_size=2),
    "select": st.integers(0, 9),
    "a name": st.integers(0, 9),
    "ts": st.integers(0, 9),
    "__x": st.integers(0, 9),
}
ROWS = st.lists(
    st.fixed_dictionaries(
        {"id": st.integers(0, 9)}, optional={name: st.none() | some for name, some in VALUES.items()}
    ),
    min_size=1,
    max_size=6,
)


def source_of(sql: str) -> Source:
    session = LocalSession()
    session.execute(sql)
    (source,) = session.catalog.sources()
    return source


@given(ROWS)
def test_proposed_source_reads_all_records(rows: list[dict[str, Any]]) -> None:
    values = [json.dumps(row).encode() for row in rows]
    made = proposal("shop.orders", [Sample(0, None, value) for value in values])
    source = source_of(made.sql)
    decoded = JsonDecoder(reading_schema(source)).decode(values)
    assert decoded.refused == () and decoded.frame.height == len(rows)
    columns = {column.name: column for column in source.columns}
    for name in {name for row in rows for name in row} - columns.keys():
        assert any(note.startswith(f'"{name}" is left out') for note in made.notes)
    for name, column in columns.items():
        assert column.nullable == any(row.get(name) is None for row in rows)


def samples(*rows: dict[str, Any], key: str | None = None) -> list[Sample]:
    return [
        Sample(0, None if key is None else json.dumps({key: row[key]}).encode(), json.dumps(row).encode())
        for row in rows
    ]


def test_time_key_and_slack() -> None:
    first = 1_764_230_400_000
    rows = [{"id": at, "created_at": first + at * 1000 - (1500 if at == 3 else 0)} for at in range(5)]
    made = proposal("a-b", samples(*rows, key="id"))
    assert made.sql == (
        "REGISTER SOURCE a_b_source (id BIGINT NOT NULL, created_at BIGINT NOT NULL)\n"
        '    FROM "a-b" TIMESTAMP BY created_at SLACK 1 SECONDS;\n'
        "CREATE STREAM a_b OVER a_b_source KEY id;"
    )
    assert source_of(made.sql).slack == 1000
    assert "TIMESTAMP" not in proposal("a", samples({"created_at": 5})).sql
    assert proposal("a", samples({"id": 1}), name="mine").sql.startswith("REGISTER SOURCE mine_source")


def test_a_field_that_is_named_ts_is_the_time() -> None:
    made = proposal("a", samples({"id": 1, "ts": 1_764_230_400_000}, {"id": 2, "ts": 1_764_230_400_001}))
    assert "(id BIGINT NOT NULL)" in made.sql and source_of(made.sql).timestamp == "ts"


def test_events_of_debezium() -> None:
    events = [
        {"payload": {"op": "c", "before": None, "after": {"id": 1, "city": "Rome"}, "source": {}}},
        {"payload": {"op": "d", "before": {"id": 1, "city": None}, "after": None, "source": {}}},
        {"payload": {"op": "t", "before": None, "after": None, "source": {}}},
    ]
    key = json.dumps({"schema": {}, "payload": {"id": 1}}).encode()
    made = proposal("shop", [Sample(0, key, json.dumps(event).encode()) for event in events] + [Sample(0, key, None)])
    assert 'FROM "shop" FORMAT DEBEZIUM TIMESTAMP BY ts_ms;' in made.sql and made.sql.endswith("KEY id;")
    assert "(id BIGINT NOT NULL, city VARCHAR)" in made.sql
    assert source_of(made.sql).format == "debezium"


def test_names_with_quotes_are_quoted() -> None:
    """Such names are invalid. The statements contain them in full, so that the error is about them."""
    made = proposal('t"u', samples({"id": 1}), 'a"b')
    assert made.sql.startswith('REGISTER SOURCE "a""b_source" (id BIGINT NOT NULL)\n    FROM "t""u";')
    assert made.sql.endswith('CREATE STREAM "a""b" OVER "a""b_source" KEY NULL;')


def test_lines_of_csv() -> None:
    lines = (b"1,a,2.5,007", b'2,"b, c",,008', b"3,d,4,009")
    made = proposal("trades", [Sample(0, None, line) for line in lines])
    assert "(c1 BIGINT, c2 VARCHAR, c3 DOUBLE, c4 VARCHAR)" in made.sql and "FORMAT CSV" in made.sql
    assert source_of(made.sql).format == "csv" and any("c1, c2, …" in note for note in made.notes)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([b"\0\0\0\0\x07abc"], "look like Avro"),
        ([b"{}"], "no column can be inferred"),
        ([b'{"TS": 1}'], "no column can be inferred.*reserved"),
        ([b"a,b", b"c"], "neither JSON objects nor"),
        ([b"1,x\ry"], "neither JSON objects nor"),
        ([], "neither JSON objects nor"),
    ],
)
def test_records_without_an_inferable_source_are_refused(values: list[bytes], why: str) -> None:
    with pytest.raises(UserError) as error:
        proposal("t", [Sample(0, None, value) for value in values])
    assert re.search(why, f"{error.value.message}; {error.value.hint}")
