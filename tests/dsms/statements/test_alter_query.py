"""ALTER VIEW | QUERY … SET refuses options of CREATE on which more than speed depends, with what to write instead."""

from __future__ import annotations

import pytest

from dsms.testing import LocalSession
from operators.core.errors import SqlError

SUMS = "SELECT k, SUM(v) AS s FROM M [Range 5] GROUP BY k"
DISTINCT = SUMS.replace("SUM(v)", "APPROX_COUNT_DISTINCT(v)")
OBJECTS = f"""
REGISTER SOURCE a (k INT, v INT) FROM a; CREATE STREAM M OVER a KEY NULL;
CREATE VIEW v AS {SUMS}; CREATE QUERY q AS {SUMS}; CREATE QUERY rows AS SELECT k, v FROM M
"""


@pytest.fixture
def session() -> LocalSession:
    session = LocalSession()
    session.execute(OBJECTS)
    return session


@pytest.mark.parametrize("option", ["topic = 'x'", "format = avro", "Partitions = 3"])
def test_what_consumers_rely_on_cannot_be_altered(session: LocalSession, option: str) -> None:
    before, name = session.catalog, option.split()[0].upper()
    with pytest.raises(SqlError) as refused:
        session.execute(f"ALTER VIEW v SET (weight = 2, {option})")
    assert str(refused.value).startswith(f"line 1, column 31: {name} cannot change: consumers of the result rely on it")
    assert refused.value.hint == "create another view with it"
    assert session.catalog == before
    with pytest.raises(SqlError, match="ERROR_COLUMNS cannot change.*create another query with it"):
        session.execute("ALTER QUERY q SET (error_columns = true)")


@pytest.mark.parametrize("option", ["max_error", "max_loss", "deadline", "error_columns", "shed_where", "memory"])
def test_views_have_no_options_that_make_results_inexact(session: LocalSession, option: str) -> None:
    with pytest.raises(SqlError) as refused:
        session.execute(f"ALTER VIEW v SET ({option} = 1)")
    why = f"{option.upper()} needs a query: readers of a view expect exact results; use CREATE QUERY …"
    assert str(refused.value) == f"line 1, column 19: {why}"


@pytest.mark.parametrize(
    ("option", "value", "query", "text"),
    [
        ("start", "TIMESTAMP '2026-01-01'", "q", SUMS),
        ("shared", "false", "q", SUMS),
        ("max_error", "0.1", "q", SUMS),
        ("deadline", "'9 seconds', max_error = 0.1", "q", SUMS),
        ("shed_where", "'v > 1', max_error = 0.1", "q", SUMS),
        ("max_loss", "0.2", "rows", "SELECT k, v FROM M"),
        ("memory", "'10 MB', max_error = 0.1", "q", DISTINCT),
    ],
)  # fmt: skip
def test_what_results_depend_on_is_changed_by_a_replacement(
    session: LocalSession, option: str, value: str, query: str, text: str
) -> None:
    session.execute(f"CREATE OR REPLACE QUERY {query} AS {text}")
    before = session.catalog
    with pytest.raises(SqlError) as refused:
        session.execute(f"ALTER QUERY {query} SET ({option} = {value})")
    assert f"{option.upper()} needs a replacement: the results or their operators depend on it" in str(refused.value)
    assert session.catalog == before
    hint = refused.value.hint.replace("AS …", f"AS {text}").replace("…", value)
    session.execute(hint)
    old, new = before.find(query), session.catalog.find(query)
    assert getattr(new, option) != getattr(old, option)
    assert new.topic == old.topic


def test_an_unknown_option_is_answered_with_those_that_can_be_altered(session: LocalSession) -> None:
    with pytest.raises(SqlError, match="WEIGHT, STATE_MEMORY, FRAGMENTS, FRAGMENT, JOIN_ORDER"):
        session.execute("ALTER VIEW v SET (colour = red)")
