"""EXPLAIN of the queries in tests/golden/explain."""

from __future__ import annotations

import pytest

from dsms.testing import LocalSession
from tests.support.plan_files import Case, declarations, plan_files

FILES = plan_files("explain")
CASES = [case for file in FILES.values() for case in file.cases.values()]


def session() -> LocalSession:
    created = LocalSession()
    created.execute(declarations("explain"))
    return created


def explained(case: Case) -> str:
    return "\n".join(str(row["plan"]) for row in session().execute(f"EXPLAIN {case.select}"))


@pytest.mark.parametrize("name", FILES)
def test_explain(name: str, golden) -> None:
    golden(FILES[name].name, FILES[name].text(explained))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_explain_of_a_running_query_shows_the_plan_of_its_select(case: Case) -> None:
    running = session()
    running.execute(f"CREATE QUERY Q AS {case.select}")
    lines = explained(case).splitlines()
    assert running.explain("Q").splitlines() == [line for line in lines if "SELECT that runs once" not in line]
