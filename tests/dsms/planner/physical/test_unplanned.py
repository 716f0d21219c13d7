"""A query that this version of dsms can no longer plan is left out and does not stop other queries."""

from __future__ import annotations

import msgspec
import pytest

from dsms.coordinator.catalog.lookup import readable_objects
from dsms.coordinator.service.object_documents import ObjectDocuments
from dsms.coordinator.watcher.object_states import States
from dsms.model.catalog import Catalog
from dsms.model.objects import Query
from dsms.model.principal import ANYBODY
from dsms.placement.leases import RUNNING, ExecutorStatus, QueryStatus
from dsms.planner.physical.fragment_plan import plan_fragment
from dsms.registration.object_columns import why_columns_unknown
from dsms.testing import LocalSession

WHY = 'line 1, column 8: column "nothing" not found; have: S.k, S.v, S.TS'


@pytest.fixture
def catalog() -> Catalog:
    session = LocalSession()
    session.execute("""
        REGISTER SOURCE A (k INT, v INT) FROM a; CREATE STREAM S OVER A KEY k;
        CREATE STREAMED VIEW Good AS SELECT k FROM S; CREATE STREAMED VIEW Bad AS SELECT v FROM S;
        CREATE STREAMED VIEW Over AS SELECT v FROM Bad; CREATE STREAMED VIEW Too AS SELECT k FROM Good
    """)
    bad = session.catalog.get("Bad")
    assert isinstance(bad, Query)
    return session.catalog.with_changed(msgspec.structs.replace(bad, select="SELECT nothing FROM S"))


@pytest.mark.parametrize("fragment", [None, "0"])
def test_other_queries_are_planned(catalog: Catalog, fragment: str | None) -> None:
    plan = plan_fragment(catalog, 2, fragment=fragment)
    assert {planned.name for planned in plan.queries.values()} == {"Good", "Too"}
    assert plan.unplanned == {"Bad": WHY, "Over": WHY}


def test_unplanned_query_is_listed_with_the_reason(catalog: Catalog) -> None:
    lanes = {item.id: QueryStatus(3) for item in catalog.running() if item.name in ("Good", "Too")}
    states = States(
        lambda: {"e": ExecutorStatus(RUNNING, lanes=lanes)},
        {},
        planning_error=lambda query: why_columns_unknown(query, catalog),
    )
    listed = ObjectDocuments(lambda: catalog, lambda: states).streams()
    found = {document["name"]: (document["state"], len(document["columns"])) for document in listed}
    assert found == {
        "S": ("registered", 2), "Good": ("running", 1), "Too": ("running", 1),
        "Bad": (f"failed: cannot be planned: {WHY}", 0), "Over": (f"failed: cannot be planned: {WHY}", 0),
    }  # fmt: skip
    assert [document.get("error") for document in listed if document["name"] in ("Good", "Bad")] == [None, WHY]


def test_clients_see_only_planned_objects(catalog: Catalog) -> None:
    assert [item.name for item in readable_objects(catalog, ANYBODY.principal)] == ["S", "Good", "Too"]
