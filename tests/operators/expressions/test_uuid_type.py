"""UUID in SQL, JSON and Avro: a type of its own, stored as its canonical text."""

import io
import json
import uuid

import fastavro
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.formats import AvroDecoder, AvroEncoder, JsonDecoder, JsonEncoder, RowDecoder, avro_schema
from dsms.model.types import parse_type, type_sql
from dsms.tables.one_time import cast_columns
from dsms.testing import LocalSession
from operators.core.errors import UserError
from operators.expressions import Column, Literal, call, cast, evaluate, to_sql
from operators.expressions.types import UUID
from tests.operators.expressions.expression_row import run

FIRST, SECOND = "0190a3f4-0000-7000-8000-00000000000a", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
SCHEMA = pa.schema(
    [
        ("id", UUID.arrow),
        ("ids", pa.list_(UUID.arrow)),
        ("inside", pa.struct([("id", UUID.arrow)])),
    ]
)
FLAT = pa.schema([("id", UUID.arrow)])
MALFORMED = [
    "",
    "x",
    FIRST[:-1],
    FIRST + "0",
    f" {FIRST}",
    FIRST.replace("-", ""),
    FIRST.replace("a", "g"),
    f"{FIRST}\n",
]
REFUSED = 'column "id": expected UUID (36 characters), got '


def test_uuid_type_name_round_trips():
    assert parse_type("uuid") == parse_type("UUID") == UUID.arrow != pa.string()
    assert type_sql(pa.list_(UUID.arrow)) == "UUID[]"


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (f"CAST('{FIRST.upper()}' AS UUID)", FIRST),
        (f"UUID '{FIRST}'", FIRST),
        (f"CAST(CONCAT(' ', '{FIRST.upper()}') AS UUID)", FIRST),
        (f"CAST(UUID '{FIRST}' AS VARCHAR)", FIRST),
        (f"UUID '{FIRST}' = '{FIRST.upper()}'", True),
        (f"UUID '{FIRST}' < UUID '{SECOND}'", True),
        (f"UUID '{FIRST}' IN ('{SECOND}', '{FIRST}')", True),
        (f"COALESCE(CAST(NULL AS UUID), UUID '{SECOND}')", SECOND),
        ("CAST(s AS UUID)", '!cannot cast "héllo" to UUID in "CAST(s AS UUID)"'),
        ("TRY_CAST(s AS UUID)", None),
    ],
)
def test_expressions(sql, expected):
    assert run(sql) == expected


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        (f"UUID '{FIRST}' = s", '"equal" does not take (UUID, VARCHAR)'),
        (f"LOWER(UUID '{FIRST}')", '"lower" does not take (UUID)'),
        (f"UUID '{FIRST}' = 'x'", "'x' is not a valid UUID"),
        ("CAST(i AS UUID)", "cannot cast INTEGER to UUID"),
    ],
)
def test_uuid_is_not_accepted_as_text(sql, problem):
    with pytest.raises(UserError) as refused:
        run(sql)
    assert problem in str(refused.value)


@given(st.uuids())
def test_the_text_of_python_is_canonical(value):
    frame = pl.DataFrame({"s": [str(value), value.hex, value.urn]})
    values, _ = evaluate(frame, {"id": cast(Column("s", pa.string()), UUID.arrow, safe=True)})
    assert values["id"].to_list() == [str(value), None, None]


def test_a_literal_is_rendered_with_its_type():
    compared = call("equal", Column("id", UUID.arrow), Literal(FIRST, pa.string()))
    assert to_sql(compared) == f"id = UUID '{FIRST}'"


def test_json():
    frame = pl.DataFrame({"id": [FIRST, None], "ids": [[SECOND, None], None], "inside": [{"id": FIRST}, None]})
    values = JsonEncoder(SCHEMA).encode(frame).to_list()
    assert json.loads(values[0]) == {"id": FIRST, "ids": [SECOND, None], "inside": {"id": FIRST}}
    assert JsonDecoder(SCHEMA).decode(values).frame.equals(frame)


@pytest.mark.parametrize("value", MALFORMED)
def test_malformed_json_is_refused(value):
    documents = [json.dumps({"id": id_}).encode() for id_ in (FIRST.upper(), value, 7)]
    result = JsonDecoder(FLAT).decode(documents)
    assert result.frame["id"].to_list() == [FIRST]
    assert [refusal.message for refusal in result.refused] == [f'{REFUSED}"{value}"', f"{REFUSED}7"]


def test_rows_may_hold_uuids_of_python():
    assert RowDecoder(FLAT).decode([{"id": uuid.UUID(FIRST)}]).frame["id"].to_list() == [FIRST]


def avro_records(writer, values):
    parsed = fastavro.parse_schema(writer)
    for value in values:
        out = io.BytesIO(b"\0\0\0\0\7")
        out.seek(5)
        fastavro.schemaless_writer(out, parsed, value)
        yield out.getvalue()


@pytest.mark.parametrize("schema", [SCHEMA, FLAT])
def test_avro(schema):
    frame = pl.DataFrame({"id": [FIRST, None], "ids": [[SECOND, None], None], "inside": [{"id": FIRST}, None]})
    frame, written = frame.select(schema.names), avro_schema(schema, "Row")
    assert written["fields"][0]["type"] == ["null", {"type": "string", "logicalType": "uuid"}]
    values = AvroEncoder(schema, 7).encode(frame).to_list()
    theirs = fastavro.schemaless_reader(io.BytesIO(values[0][5:]), fastavro.parse_schema(written), None)
    assert theirs["id"] == uuid.UUID(FIRST)
    assert AvroDecoder(schema, {7: written}.__getitem__).decode(values).frame.equals(frame)


@pytest.mark.parametrize("columnar", [True, False])
@pytest.mark.parametrize("kind", ["string", ["null", "string"]])
def test_malformed_avro_is_refused(kind, columnar):
    writer = {"type": "record", "name": "R", "fields": [{"name": "id", "type": kind}]}
    values = list(avro_records(writer, [{"id": id_} for id_ in (FIRST, SECOND.upper(), *MALFORMED)]))
    result = AvroDecoder(FLAT, {7: writer}.__getitem__, columnar=columnar).decode(values)
    assert result.frame["id"].to_list() == [FIRST, SECOND]
    assert [refusal.message for refusal in result.refused] == [f'{REFUSED}"{value}"' for value in MALFORMED]


def test_avro_of_sixteen_bytes():
    fixed = {"type": "fixed", "name": "F", "size": 16, "logicalType": "uuid"}
    writer = {"type": "record", "name": "R", "fields": [{"name": "id", "type": fixed}]}
    value = b"\0\0\0\0\7" + uuid.UUID(SECOND).bytes
    assert AvroDecoder(FLAT, {7: writer}.__getitem__).decode([value]).frame["id"].to_list() == [SECOND]


def test_a_query_groups_and_compares():
    session = LocalSession(partitions=2)
    session.execute(
        "REGISTER SOURCE logged (id UUID, ids UUID[], v BIGINT) FROM logged; CREATE STREAM S OVER logged KEY id;"
        "CREATE STREAMED VIEW q AS SELECT id, SUM(v) AS total, MAX(id) AS last FROM R(S) "
        f"WHERE id <> '{SECOND}' GROUP BY id"
    )
    rows = [(FIRST, 1), (SECOND, 2), (FIRST.upper(), 3), ("x", 4)]
    session.push("logged", [{"id": id_, "ids": [id_], "v": v, "ts": v} for id_, v in rows])
    session.advance(9)
    assert session.relation("q") == [{"id": FIRST, "total": 3, "last": FIRST}]
    assert [letter["reason"] for letter in session.dead_letters("logged")] == [f'{REFUSED}"x"']


def test_a_table_of_uuids():
    session = LocalSession()
    session.execute("CREATE TABLE t (id UUID PRIMARY KEY, ids UUID[], place STRUCT<id UUID>)")
    session.execute(f"INSERT INTO t VALUES ('{FIRST.upper()}', ['{SECOND}'], NULL), ('{SECOND}', NULL, NULL)")
    session.execute(f"UPDATE t SET ids = ['{FIRST}'] WHERE id = UUID '{SECOND.upper()}'")
    selected = session.execute(
        f"SELECT id, ids FROM t WHERE id = '{FIRST.upper()}' OR ids[1] = '{FIRST.upper()}' ORDER BY id"
    )
    assert [(str(row["id"]), list(map(str, row["ids"]))) for row in selected] == [(FIRST, [SECOND]), (SECOND, [FIRST])]
    session.execute(f"UPDATE t SET place = NULL, ids = NULL WHERE id = '{FIRST}'")
    with pytest.raises(UserError, match='column "id" is UUID: cannot cast "x" to UUID'):
        session.execute("INSERT INTO t (id) VALUES ('x')")


def test_rows_of_a_table_are_cast_to_its_columns():
    rows = cast_columns(pa.table({"id": [FIRST.upper(), None]}), FLAT)
    assert rows.schema == FLAT
    assert rows.column("id").to_pylist() == [FIRST, None]


@pytest.mark.parametrize(
    ("given", "expected"),
    [(pa.array([None], pa.int32()), None), (pa.array([uuid.UUID(SECOND).bytes], pa.uuid()), SECOND)],
)
def test_other_columns_are_cast_by_duckdb(given, expected):
    assert cast_columns(pa.table({"id": given}), FLAT).column("id").to_pylist() == [expected]
