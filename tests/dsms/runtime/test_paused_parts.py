"""The parts of a divided query run in lanes of their own while the query is paused."""

from __future__ import annotations

import pytest

from dsms.planner.physical.fragment_plan import plan_fragment
from dsms.runtime.lanes.manifest import Manifest
from dsms.runtime.lanes.revision import query_frontier, revised
from operators.core.delta import BEGINNING
from tests.support.fake_environment import FakeEnvironment, apply_all

INPUTS = "REGISTER SOURCE T (k INT, v INT) FROM t; CREATE STREAM A OVER T KEY NULL;"
#: A segment that reads two links, and one that reads no link of its own: a constant relation.
QUERIES = {
    "two links": """SELECT STREAMED X.k, Y.v, COUNT(*) AS n
        FROM (SELECT k, COUNT(*) AS n FROM A GROUP BY k) AS X
        JOIN (SELECT v, COUNT(*) AS m FROM A GROUP BY v) AS Y ON X.n = Y.m GROUP BY X.k, Y.v""",
    "a constant": """SELECT STREAMED X.k, Y.c, COUNT(*) AS n
        FROM (SELECT k, COUNT(*) AS n FROM A GROUP BY k) AS X
        JOIN (SELECT c FROM (VALUES (1), (2)) AS t(c)) AS Y ON X.n = Y.c GROUP BY X.k, Y.c""",
}


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("fragment", ["0", "1"])
@pytest.mark.parametrize("life", ["", "; PAUSE QUERY Q"], ids=["running", "paused"])
def test_a_lane_reads_all_that_its_results_wait_for(fragment: str, life: str, query: str) -> None:
    """Otherwise the executor cannot tell how far they are, and ends."""
    create = f"CREATE STREAMED VIEW Q WITH (fragments = 2, partitions = 2) AS {QUERIES[query]}"
    catalog, _ = apply_all(INPUTS + create + life, environment=FakeEnvironment({"t": {0: 0, 1: 0}}, fragments=2))
    revision = revised(plan_fragment(catalog, 2, fragment=fragment), Manifest(targets=2), ())
    for name, lane in revision.lanes.items():
        for output in lane.outputs:
            assert lane.leaves(output) <= lane.sources.keys(), output.id
            assert query_frontier(output, lane, revision.manifest.lanes[name]) == BEGINNING
