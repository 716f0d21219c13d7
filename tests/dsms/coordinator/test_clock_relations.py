"""Views over the clock as the coordinator reads them: at a given instant, without a topic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import pyarrow as pa
import pytest

from connectors.alarms import Alarms
from connectors.kafka.client.config import KafkaSettings
from dsms.coordinator.results.relations import Reading, Relations
from dsms.model.catalog import Catalog
from dsms.model.objects import Table
from dsms.tables.select_budget import Budget
from operators.core.errors import UserError
from tests.support.fake_environment import apply_all

SYNC = "CREATE STREAMED VIEW Sync3 AS SELECT Timepoint FROM R(clockStr) WHERE Timepoint mod 3 = 1"
NO_LIMITS = cast(Budget, None)


class OneTable:
    """Tables whose last final instant is 7."""

    def rows_at(self, table: Table, at: int | None, budget: Budget, *_: object) -> pa.Table:
        return pa.table({"k": [1]})

    def last_instant(self, tables: Iterable[Table]) -> int:
        return 7


@pytest.fixture
def relations() -> Relations:
    return Relations(KafkaSettings("127.0.0.1:1"), "test", OneTable(), cast(Alarms, None), 1)


@pytest.fixture
def catalog() -> Catalog:
    return apply_all(f"{SYNC}; CREATE TABLE T (k INT PRIMARY KEY)", Catalog())[0]


def test_the_points_up_to_a_given_instant(relations: Relations, catalog: Catalog) -> None:
    assert relations.final("Sync3", 5, catalog) == 5
    assert relations.at(5, catalog, NO_LIMITS, Reading({}))("Sync3").to_pylist() == [{"Timepoint": 1}, {"Timepoint": 4}]


def test_the_instant_is_that_of_the_other_objects(relations: Relations, catalog: Catalog) -> None:
    assert relations.common_instant(["Sync3", "T"], catalog) == 7


def test_without_an_instant_the_error_says_how_to_give_one(relations: Relations, catalog: Catalog) -> None:
    message = '"Sync3" is computed from the clock, so an instant must be given'
    assert relations.common_instant(["Sync3"], catalog) is None
    with pytest.raises(UserError, match=message) as refused:
        relations.at(None, catalog, NO_LIMITS, Reading({}))("Sync3")
    assert refused.value.hint == "read it together with a view or table, or as GET /v1/queries/Sync3/relation?at=…"
    with pytest.raises(UserError, match=message):
        relations.final("Sync3", None, catalog)
