"""Each statement of docs/everyday-sql.md does what the page says: it runs, or is refused with what to write instead."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dsms.testing import LocalSession
from operators.core.errors import SqlError

PAGE = (Path(__file__).parents[3] / "docs/everyday-sql.md").read_text()
OBJECTS = re.findall(r"^```sql runnable\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0]
KNOWN, OTHER = PAGE.split("## As you know it")[1].split("## Written in another way")


def statements(section: str, cells: int) -> list[tuple[str, ...]]:
    """The statements in the first cells of the rows of a table, in which `|` ends a cell."""
    rows = [line for line in section.splitlines() if line.startswith("|") and "`" in line]
    return [tuple(re.findall(r"`([^`]+)`", row)[:cells]) for row in rows]


def refused(statement: str) -> SqlError:
    session = LocalSession()
    session.execute(OBJECTS)
    before = session.catalog
    with pytest.raises(SqlError) as caught:
        session.execute(statement)
    assert session.catalog == before
    return caught.value


def test_the_page_has_the_statements_of_every_day() -> None:
    assert len(statements(KNOWN, 1)) >= 45
    assert len(statements(OTHER, 2)) >= 30


@pytest.mark.parametrize("statement", [row[0] for row in statements(KNOWN, 1)])
def test_a_statement_works_as_it_is_known(statement: str) -> None:
    session = LocalSession()
    session.execute(OBJECTS)
    session.execute(statement)


@pytest.mark.parametrize(("there", "here"), statements(OTHER, 2))
def test_a_statement_of_others_is_refused_and_the_other_way_works(there: str, here: str) -> None:
    error = refused(there)
    assert error.hint, "the error says what to write instead"
    assert re.match(r"line 1, column \d+: ", str(error))
    session = LocalSession()
    session.execute(OBJECTS)
    session.execute(here)
