"""DuckDB as the oracle of user-defined aggregates: cases in which these replace SUM, MIN and MAX."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import HealthCheck, Phase, given, seed, settings

from dsms.testing import LocalSession
from operators.core.errors import UserError
from tests.algebra.case_check import CUTTINGS, Cutting, check
from tests.algebra.cases import Case, cases
from tests.algebra.duck import Duck
from tests.algebra.even_draws import install

#: With EXPIRE, which is the inverse of ITERATE, and without; with a table of one row and of many.
DEFINITIONS = """
CREATE AGGREGATE own_sum(x BIGINT): BIGINT {
  TABLE state(total BIGINT, present BIGINT);
  INITIALIZE: { INSERT INTO state VALUES (coalesce(x, 0), CASE WHEN x IS NULL THEN 0 ELSE 1 END); }
  ITERATE: { UPDATE state SET total = total + x, present = present + 1 WHERE x IS NOT NULL; }
  TERMINATE: { INSERT INTO RETURN SELECT CASE WHEN present > 0 THEN total END FROM state; }
  EXPIRE: { UPDATE state SET total = total - x, present = present - 1 WHERE x IS NOT NULL; }
};
CREATE AGGREGATE own_max(x BIGINT): BIGINT {
  TABLE state(greatest BIGINT);
  INITIALIZE: { INSERT INTO state VALUES (x); }
  ITERATE: { UPDATE state SET greatest = x WHERE x > greatest OR greatest IS NULL; }
  TERMINATE: { INSERT INTO RETURN SELECT greatest FROM state; }
};
CREATE AGGREGATE own_min(x BIGINT): BIGINT {
  TABLE seen(value BIGINT, copies BIGINT);
  INITIALIZE: ITERATE: {
    IF EXISTS (SELECT value FROM seen WHERE value = x) { UPDATE seen SET copies = copies + 1 WHERE value = x; }
    ELSE { INSERT INTO seen VALUES (x, 1) WHERE x IS NOT NULL; }
  }
  TERMINATE: { INSERT INTO RETURN SELECT min(value) FROM seen; }
  EXPIRE: {
    UPDATE seen SET copies = copies - 1 WHERE value = x;
    DELETE FROM seen WHERE copies = 0;
  }
}
"""
_CALL = re.compile(r"\b(SUM|MAX|MIN)\((?!DISTINCT)")


#: What user-defined aggregates do not support, as parts of the error messages.
REFUSED = ("a stream has no end", 'takes BIGINT as "x"', "does not take DISTINCT, ORDER BY or FILTER over a stream")

checked: list[str] = []


def written(case: Case) -> Case | None:
    """The case with user-defined aggregates in our query; None if it calls no aggregate that they replace."""
    query = _CALL.sub(lambda call: f"own_{call[1].lower()}(", case.query)
    if query == case.query or "OVER" in query:
        return None
    made = replace(case, query=query, views=(*DEFINITIONS.strip().split(";\nCREATE"),))
    first, *others = made.views
    return replace(made, views=(first, *(f"CREATE{other}" for other in others), *case.views))


def runs(case: Case) -> bool:
    """Whether the query is accepted: user-defined aggregates take only numbers, and no stream without a window."""
    session = LocalSession()
    try:
        for statement in case.statements:
            session.execute(statement)
    except UserError as error:
        assert any(reason in str(error) for reason in REFUSED), error
        return False
    return True


@seed(1)
@settings(
    max_examples=400,
    backend=install(),
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(cases(), CUTTINGS)
def check_cases(case: Case, cutting: Cutting) -> None:
    own = written(case)
    if own is not None and runs(own):
        checked.append(own.query)
        check(own, cutting, Duck())


def test_queries_equal_duckdb_at_every_instant_for_any_batches() -> None:
    LocalSession().execute(DEFINITIONS)
    check_cases()
    calls = [call for query in checked for call in re.findall(r"own_\w+", query)]
    assert len(checked) >= 20
    assert set(calls) == {"own_sum", "own_max", "own_min"}
