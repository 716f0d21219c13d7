"""SELECTs over little input have the coordinator's priority as long as they are quick."""

from __future__ import annotations

import json
from collections.abc import Iterator

import psutil
import pyarrow as pa
import pytest

from dsms.model.limits import Limits
from dsms.tables.one_time_query import OneTimeQueryWithRows
from dsms.tables.quick_selects import QuickSelects
from dsms.tables.select_budget import TookTooLong
from dsms.tables.select_pool import SelectPool

ENDLESS = "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


@pytest.fixture
def others() -> Iterator[SelectPool]:
    made = SelectPool(Limits(select_seconds=2), 1, niceness=7)
    yield made
    made.close()


@pytest.fixture
def selects(others: SelectPool) -> Iterator[QuickSelects]:
    made = QuickSelects(Limits(select_seconds=2), others)
    yield made
    made.close()


@pytest.fixture
def others_before() -> set[int]:
    """The processes that earlier tests have left in this process, for example in pools of a module."""
    return {process.pid for process in psutil.Process().children()}


def niceness(before: set[int]) -> list[int]:
    """The priorities of the processes that answer."""
    children = (process for process in psutil.Process().children() if process.pid not in before)
    return sorted(process.nice() - psutil.Process().nice() for process in children)


def ask(selects: QuickSelects, others: SelectPool, sql: str, **relations: pa.Table) -> object:
    with others.admitted() as budget:
        return json.loads(selects.reply(OneTimeQueryWithRows(sql, relations), "json", budget).rows)


def test_little_input_has_a_quick_process_and_much_input_another(
    others_before: set[int], selects: QuickSelects, others: SelectPool
) -> None:
    assert ask(selects, others, "SELECT 1") == [[1]]
    assert niceness(others_before) == [0]
    much = pa.table({"x": pa.repeat(1, 3_000_000)})
    assert ask(selects, others, "SELECT count(*) FROM t", t=much) == [[3_000_000]]
    assert niceness(others_before) == [0, 7]


def test_what_is_not_quick_continues_with_low_priority_as_all_others_for_a_while(
    others_before: set[int], selects: QuickSelects, others: SelectPool
) -> None:
    with pytest.raises(TookTooLong, match="after 2 s"):
        ask(selects, others, ENDLESS)
    assert niceness(others_before) == []
    assert ask(selects, others, "SELECT 1") == [[1]]
    assert niceness(others_before) == [7]
