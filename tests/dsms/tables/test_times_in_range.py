"""Times beyond the system's calendar are refused if a one-time statement computes or stores them."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from dsms.model.limits import Limits
from dsms.tables.one_time import answer, cast_columns, evaluate
from dsms.tables.one_time_query import OneTimeQueryWithRows
from dsms.tables.select_pool import SelectPool
from dsms.testing import LocalSession
from operators.core.errors import UserError

FAR = [
    "TIMESTAMP '9999-12-31 23:59:59' + INTERVAL '1 second'",
    "TIMESTAMP '0001-01-01 00:00:00' - INTERVAL '1 second'",
    "CAST(DATE '9999-12-31' + 1 AS DATE)",
]
WHY = 'a value of "x" is out of range; times must be in the years 1 to 9999'


@pytest.mark.parametrize("far", FAR)
def test_a_select_that_computes_one_is_refused(far: str) -> None:
    with pytest.raises(UserError, match="out of range in"):  # the engine computes it
        LocalSession().execute(f"SELECT {far} AS x")
    for ask in (answer, evaluate):
        with pytest.raises(UserError, match=WHY):
            ask(OneTimeQueryWithRows(f"SELECT 1 AS k, {far} AS x UNION ALL SELECT 2, NULL", {}))


def test_select_process_refuses_far_times_and_continues() -> None:
    pool = SelectPool(Limits(selects=1, select_seconds=60, select_memory_mb=96, select_rows=100, relation_mb=1), 2)
    try:
        for far in FAR:
            with pool.admitted() as budget, pytest.raises(UserError, match=WHY):
                pool.reply(OneTimeQueryWithRows(f"SELECT {far} AS x", {}), "json", budget)
        with pool.admitted() as budget, pytest.raises(UserError, match=WHY):
            pool.reply(OneTimeQueryWithRows(f"SELECT {FAR[0]} AS x", {}), "arrow", budget)
        with pool.admitted() as budget:
            near = pool.reply(
                OneTimeQueryWithRows("SELECT TIMESTAMP '9999-12-31 23:59:59.999999' AS x", {}), "json", budget
            )
        assert json.loads(near.rows) == [["9999-12-31T23:59:59.999999"]]
    finally:
        pool.close()


def test_rows_of_a_table_are_checked() -> None:
    for type_, beyond in ((pa.timestamp("us"), 253_402_300_800_000_000), (pa.date32(), -719_163)):
        given = pa.table({"x": pa.array([0, None, beyond], type_)})
        with pytest.raises(UserError, match=WHY):
            cast_columns(given, pa.schema([("x", type_)]))
        assert cast_columns(given.slice(0, 2), pa.schema([("x", type_)])).num_rows == 2
    with pytest.raises(UserError, match='cannot cast "10000-01-01" to DATE'):
        cast_columns(pa.table({"given": ["10000-01-01"]}), pa.schema([("x", pa.date32())]))


@pytest.mark.parametrize("type_", [pa.timestamp("us"), pa.string(), pa.int64()])
def test_an_interval_is_no_value_of_a_column(type_: pa.DataType) -> None:
    given = evaluate(OneTimeQueryWithRows("SELECT INTERVAL 1 DAY AS x", {}))
    with pytest.raises(UserError, match='column "x" is .*: an INTERVAL is no value of a column'):
        cast_columns(given, pa.schema([("x", type_)]))
