"""Queries of the whole algebra, placed in several fragments, publish the records of one fragment."""

from __future__ import annotations

from collections import Counter

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dsms.model.catalog import Catalog
from operators.core.errors import UserError
from tests.algebra.cases import Case, cases
from tests.algebra.even_draws import install
from tests.algebra.executor_check import log_of, with_little_slack
from tests.support.fake_environment import FakeEnvironment, apply_all
from tests.support.pure_shares import Services, run_shares
from tests.support.strategies import examples

TURNS = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 12), st.sampled_from([False, False, True])), max_size=12)
#: Queries over the view P, which has the query of the case.
ABOVE = (
    "SELECT STREAMED * FROM P",
    "SELECT STREAMED COUNT(*) AS c FROM P",
    "SELECT STREAMED {0}, COUNT(*) AS c FROM P GROUP BY {0}",
    "SELECT STREAMED DISTINCT {0} FROM P",
    "SELECT STREAMED X.{0} FROM P AS X WHERE NOT EXISTS (SELECT 1 FROM S1 AS Y WHERE Y.TS = 3)",
)


@st.composite
def placed(draw: st.DrawFn) -> tuple[Case, list[str], list[int]]:
    """A case, queries that contain its operators, and the fragment of each query."""
    case = with_little_slack(draw(cases(most=6, depth=3, with_tables=False)))
    view = case.statements[-1].replace(" Q AS ", " P AS ", 1)
    same = view.replace(" P AS ", " Q0 AS ", 1)
    above = [text.format(case.names[0]) for text in draw(st.lists(st.sampled_from(ABOVE), max_size=2))]
    queries = [view, same, *(f"CREATE STREAMED VIEW Q{at} AS {text}" for at, text in enumerate(above, 1))]
    return case, queries, [draw(st.integers(0, 2)) for _ in queries]


def catalog_of(case: Case, queries: list[str], fragments: list[int], count: int, partitions: int) -> Catalog | None:
    """The catalog with the queries in their fragments; None if a query is refused."""
    environment = FakeEnvironment(
        {f"t{each.number}": dict.fromkeys(range(partitions), 0) for each in case.sources}, count
    )
    named = [
        query.replace(" AS ", f" WITH (fragment = '{at % count}') AS ", 1)
        for query, at in zip(queries, fragments, strict=True)
    ]
    try:
        return apply_all("; ".join([*case.inputs, *case.views, *named]), environment=environment)[0]
    except UserError:
        return None


def run_over(case: Case, catalog: Catalog, partitions: int, targets: int = 1, turns=()) -> Services:
    logs = {f"t{source.number}": log_of(source, partitions) for source in case.sources}
    return run_shares(Services(logs), [catalog], targets, turns)


@settings(max_examples=examples(60), backend=install())
@given(placed(), st.integers(1, 2), st.integers(2, 3), st.integers(1, 3), TURNS)
def test_links_do_not_change_the_records(drawn, partitions, count, targets, turns) -> None:
    case, queries, fragments = drawn
    catalog = catalog_of(case, queries, fragments, count, partitions)
    assume(catalog is not None and catalog.subplans())
    one = catalog_of(case, queries, [0] * len(queries), 1, partitions)
    parts, whole = run_over(case, catalog, partitions, targets, turns), run_over(case, one, partitions)
    assert {log: rows for log, rows in parts.results.items() if rows} == {
        log: rows for log, rows in whole.results.items() if rows
    }
    assert Counter(map(repr, parts.dead)) == Counter(map(repr, whole.dead))
