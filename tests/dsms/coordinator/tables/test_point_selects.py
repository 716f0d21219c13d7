"""Plans of SELECTs by key hold for one catalog and one caller; look-ups that come together share a call."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Sequence
from typing import Any, cast

import msgspec
import pytest

from dsms.coordinator.results.relations import Relations
from dsms.coordinator.tables.joined_lookups import Answer, JoinedLookups, result_or_raise
from dsms.coordinator.tables.point_selects import Lookup, PointSelect, PointSelects
from dsms.coordinator.tables.reads import Reads
from dsms.model.catalog import Catalog
from dsms.model.limits import Limits
from dsms.model.objects import Query
from dsms.model.principal import ANYBODY, AccessRules, Forbidden, Principal
from dsms.model.statement_result import EncodedRows, StatementResult
from dsms.tables.select_budget import Budget
from dsms.testing import LocalSession
from operators.core.errors import UserError

BY_KEY = "SELECT * FROM best WHERE k = {}"
READER = Principal("ann", "reader", AccessRules.of(read=["best"]))


class RowsByKey:
    """Views whose rows are (k, 10 k)."""

    def found_by_key(
        self, query: Query, wanted: Sequence[Collection[bytes]], catalog: Catalog, budget: Budget
    ) -> tuple[int, list[list[tuple[Any, ...]]]]:
        """The rows, as of instant 7."""
        keys = [[msgspec.json.decode(key)["k"] for key in each] for each in wanted]
        return 7, [[(key, 10 * key) for key in each] for each in keys]


class Points:
    """Point queries over the views of a session."""

    def __init__(self) -> None:
        self.session = LocalSession()
        self.session.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT); CREATE VIEW best AS SELECT k, v FROM t")
        relations = cast(Relations, RowsByKey())
        self.selects = PointSelects(relations, lambda: self.session.catalog, Reads(), Limits())

    def of(self, sql: str) -> PointSelect:
        """The point query of a text."""
        found = self.selects.of(sql)
        assert found is not None
        return found

    def rows(self, sql: str, principal: Principal = ANYBODY.principal) -> tuple[tuple[str, ...], object]:
        """The columns and rows of a SELECT."""
        result = self.selects.answer(self.of(sql), principal, threading.Event())
        assert isinstance(result.rows, EncodedRows)
        return result.columns, msgspec.json.decode(result.rows.json)


@pytest.fixture
def points() -> Points:
    return Points()


def test_a_shape_is_known_once_it_was_parsed_with_the_present_catalog(points: Points) -> None:
    assert points.selects.of(BY_KEY.format(1), known=True) is None
    assert points.rows(BY_KEY.format(1)) == (("k", "v"), [[1, 10]])
    assert points.selects.of(BY_KEY.format(2), known=True) is not None
    points.session.execute("CREATE TABLE other (k INT PRIMARY KEY)")
    assert points.selects.of(BY_KEY.format(2), known=True) is None
    assert points.rows(BY_KEY.format(2)) == (("k", "v"), [[2, 20]])


def test_no_plan_of_a_dropped_view(points: Points) -> None:
    select = points.of(BY_KEY.format(1))
    points.session.execute("DROP VIEW best")
    assert points.selects.of(BY_KEY.format(1)) is None
    with pytest.raises(UserError, match='"best" was dropped meanwhile'):
        points.selects.answer(select, ANYBODY.principal, threading.Event())


def test_the_plan_of_a_view_that_was_created_again(points: Points) -> None:
    select = points.of(BY_KEY.format(1))
    points.session.execute("DROP VIEW best; CREATE VIEW best AS SELECT v AS w, k FROM t")
    with pytest.raises(UserError, match='"best" was dropped meanwhile'):
        points.selects.answer(select, ANYBODY.principal, threading.Event())
    assert points.selects.of(BY_KEY.format(1)) != select


def test_the_plan_of_a_view_that_was_replaced(points: Points) -> None:
    before = points.of(BY_KEY.format(1)).view
    points.session.execute("CREATE OR REPLACE VIEW best AS SELECT k, v + 1 AS v FROM t")
    after = points.of(BY_KEY.format(1)).view
    assert (after.name, after.select == before.select) == ("best", False)


def test_the_plan_of_a_view_that_was_renamed(points: Points) -> None:
    points.of(BY_KEY.format(1))
    points.session.execute("ALTER VIEW best RENAME TO first")
    assert points.selects.of(BY_KEY.format(1)) is None
    assert points.rows("SELECT * FROM first WHERE k = 1")[0] == ("k", "v")


def test_rights_are_those_of_the_caller_of_each_statement(points: Points) -> None:
    assert points.rows(BY_KEY.format(1), READER)[1] == [[1, 10]]
    nobody = Principal("ann", "reader", AccessRules.of(read=["other"]))
    with pytest.raises(Forbidden):
        points.rows(BY_KEY.format(1), nobody)
    select = points.of(BY_KEY.format(1))
    first, second = points.selects.answers([(select, nobody), (select, READER)], threading.Event())
    assert isinstance(first, Forbidden)
    assert isinstance(second, StatementResult)


def test_lookups_that_come_while_a_call_is_under_way_share_the_next_one(points: Points) -> None:
    calls, begun, go = list[list[str]](), threading.Semaphore(0), threading.Semaphore(0)

    def look_up_all(lookups: Sequence[Lookup]) -> list[Answer]:
        calls.append([each.sql for each in lookups])
        begun.release()
        assert go.acquire(timeout=30)
        return points.selects.answers([(each.select, each.caller.principal) for each in lookups], threading.Event())

    async def come() -> list[list[tuple[Any, ...]]]:
        joined = JoinedLookups(look_up_all)
        texts = [BY_KEY.format(number) for number in range(5)]
        waits = [joined.answer(Lookup(text, points.of(text), ANYBODY)) for text in texts[:1]]
        await asyncio.to_thread(begun.acquire, timeout=30)
        waits += [joined.answer(Lookup(text, points.of(text), ANYBODY)) for text in texts[1:]]
        waits[1].cancel()
        go.release()
        go.release()
        return [list(result_or_raise(await wait).rows) for wait in (*waits[:1], *waits[2:])]

    assert asyncio.run(come()) == [[(0, 0)], [(2, 20)], [(3, 30)], [(4, 40)]]
    assert [len(call) for call in calls] == [1, 4]


def test_an_error_of_a_call_goes_to_all_who_wait_for_it(points: Points) -> None:
    def look_up_all(_: Sequence[Lookup]) -> list[Answer]:
        raise ValueError("no")

    async def come() -> list[object]:
        joined, select = JoinedLookups(look_up_all), points.of(BY_KEY.format(1))
        lookup = Lookup("", select, ANYBODY)
        first = await asyncio.gather(joined.answer(lookup), joined.answer(lookup), return_exceptions=True)
        return [*first, *await asyncio.gather(joined.answer(lookup), return_exceptions=True)]

    assert [type(each) for each in asyncio.run(come())] == [ValueError] * 3
