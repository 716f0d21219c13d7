"""JSON of other writers: escapes that are not characters and numbers outside DOUBLE, compared with DuckDB."""

from __future__ import annotations

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from operators.expressions import Column, Literal, call, evaluate
from tests.support import duck_engine

J = Column("j", pa.string())
PATH = Literal("$.a", pa.string())
PIECES = st.sampled_from([r"\ud83d", r"\ude00", r"\uD83D\uDE00", r"\\ud83d", r"\u0041", "x", "é", r"\n", r"\\"])
STRINGS = st.lists(PIECES, max_size=4).map(lambda pieces: '"' + "".join(pieces) + '"')
NUMBERS = st.sampled_from(["1e400", "-2E+500", "1e999999999", "7", "1.5", "9" * 400, "true", "null"])
SCALARS = STRINGS | NUMBERS
DOCUMENTS = st.builds('{{"b":{0},"a":{1}}}'.format, SCALARS | st.builds("[{0}]".format, SCALARS), SCALARS)


def of_duckdb(expression: str, text: str) -> object:
    try:
        return duck_engine.connection().execute(f"SELECT {expression}", [text]).fetchall()[0][0]
    except duckdb.Error:
        return "a fault"


def ours(function: str, text: str, *arguments: Literal) -> object:
    values, faults = evaluate(pl.DataFrame({"j": [text]}), {"x": call(function, J, *arguments)})
    return "a fault" if faults[0] is not None else values["x"][0]


@given(DOCUMENTS)
@example(r'{"a":"\ud83d"}')
@example(r'{"\ud83d":1,"a":2}')
@example('{"b":1,"a":1e400}')
def test_texts_are_read_as_duckdb_reads_them(text: str) -> None:
    assert ours("json_valid", text) == of_duckdb("json_valid(?)", text)
    assert ours("json_extract_string", text, PATH) == of_duckdb("json_extract_string(?, '$.a')", text)
    assert ours("json_exists", text, PATH) == of_duckdb("json_exists(?, '$.a')", text)


@pytest.mark.parametrize("half", [r"\ud83d", r"\uDE00", r"\ude00\ud83d"])
@pytest.mark.parametrize("function", ["json_value", "json_query", "json_extract"])
def test_half_a_surrogate_pair_is_a_fault_of_its_row(function: str, half: str) -> None:
    frame = pl.DataFrame({"j": [f'{{"a":["{half}"]}}', '{"a":[1]}']})
    values, faults = evaluate(frame, {"x": call(function, J, PATH)})
    assert faults[0].startswith("invalid JSON in") and faults[1] is None
    assert values["x"][0] is None


def test_numbers_outside_double_keep_their_text() -> None:
    text = '{"a":[1e400,{"é":-2E+500}],"n":1e400}'
    assert ours("json_value", text, Literal("$.n", pa.string())) == "1e400"
    assert ours("json_query", text, PATH) == '[1e400,{"é":-2E+500}]'
    assert ours("json_array_length", text, PATH) == 2
