"""Each unsupported construct in docs/sql.md is refused, with its location and an alternative."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dsms.testing import LocalSession
from operators.core.errors import SqlError

SECTION = (Path(__file__).parents[3] / "docs/sql.md").read_text().split("## What is refused\n")[1]
OBJECTS = """
REGISTER SOURCE a (k INT, v INT) FROM a; CREATE STREAM S OVER a KEY k; CREATE STREAM M OVER a KEY NULL;
CREATE TABLE T (k INT PRIMARY KEY, x INT); CREATE VIEW V AS SELECT k FROM S
"""


def test_conditions_within_conditions_are_bound_once() -> None:
    session, text = LocalSession(), "k"
    session.execute(OBJECTS)
    for _ in range(20):
        text = f"CAST(({text}) - 1 < 2 AS INT)"
    session.execute(f"CREATE VIEW Q AS SELECT {text} AS e FROM S")


def test_the_list_has_statements_and_parts_of_select() -> None:
    assert len(re.findall(r"^\| `SELECT", SECTION, re.MULTILINE)) > 10
    assert len(re.findall(r"^\| `[A-RT-Z]", SECTION, re.MULTILINE)) > 20


@pytest.mark.parametrize("construct", re.findall(r"^\| `([^`]+)` \|", SECTION, re.MULTILINE))
def test_unsupported_construct_is_refused_with_its_location_and_an_alternative(construct: str) -> None:
    session = LocalSession()
    session.execute(OBJECTS)
    before = session.catalog
    with pytest.raises(SqlError) as caught:
        session.execute(f"CREATE VIEW Q AS {construct}" if construct.startswith("SELECT") else construct)
    assert caught.value.hint
    assert re.match(r"line 1, column \d+: ", str(caught.value))
    assert session.catalog == before
