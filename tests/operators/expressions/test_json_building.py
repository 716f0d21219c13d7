"""JSON that is built from values, compared with DuckDB and Python's reader."""

from __future__ import annotations

import json

import polars as pl
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from operators.expressions import Column, Literal, call, evaluate
from tests.support import duck_engine

TYPES = {
    "i": pa.int64(),
    "t": pa.string(),
    "b": pa.bool_(),
    "l": pa.list_(pa.int64()),
    "s": pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))]),
}
TEXT, WHOLE = st.none() | st.text(max_size=4), st.none() | st.integers(-(2**63), 2**63 - 1)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "i": WHOLE,
            "t": TEXT,
            "b": st.none() | st.booleans(),
            "l": st.none() | st.lists(WHOLE, max_size=3),
            "s": st.none() | st.fixed_dictionaries({"x": WHOLE, "y": st.none() | st.lists(TEXT, max_size=2)}),
        }
    ),
    min_size=1,
    max_size=5,
)
COLUMNS = [Column(name, kind) for name, kind in TYPES.items()]


def marks(text: str) -> Literal:
    return Literal(text, pa.string())


NAMED = [part for column in COLUMNS for part in (Literal(column.name, pa.string()), column)]
OBJECT = call("json_object", marks("t" * len(NAMED)), *NAMED)
ARRAY = call("json_array", marks("tttttj"), *COLUMNS, OBJECT)


@given(ROWS)
def test_objects_and_arrays_are_those_of_duckdb_and_read_back(rows: list[dict[str, object]]) -> None:
    table = pa.Table.from_pylist(rows, schema=pa.schema(list(TYPES.items())))
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    duck = duck_engine.connection()
    duck.register("rows", table)
    pairs = ", ".join(f"'{name}', {name}" for name in TYPES)
    made = f"json_object({pairs})"
    wanted = duck.execute(f"SELECT {made}, json_array({', '.join(TYPES)}, {made}), to_json(s) FROM rows").fetchall()
    calls = {"object": OBJECT, "array": ARRAY, "value": call("to_json", marks("t"), Column("s", TYPES["s"]))}
    values, faults = evaluate(frame, calls)
    assert faults.null_count() == len(rows)
    found = [values[name].to_list() for name in calls]
    assert [[None if text is None else json.loads(text) for text in texts] for texts in found] == [
        [None if text is None else json.loads(text) for text in texts] for texts in zip(*wanted, strict=True)
    ]
    assert [json.loads(text) for text in found[0]] == rows
