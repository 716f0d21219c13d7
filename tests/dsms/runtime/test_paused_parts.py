"""The parts of a divided query run in lanes of their own while the query is paused."""

from __future__ import annotations

import pytest

from dsms.planner.physical.fragment_plan import plan_fragment
from dsms.runtime.lanes.manifest import Manifest
from dsms.runtime.lanes.revision import query_frontier, revised
from operators.core.delta import BEGINNING
from tests.support.fake_environment import FakeEnvironment, apply_all

SQL = """REGISTER SOURCE T (k INT, v INT) FROM t; CREATE STREAM A OVER T KEY NULL;
CREATE STREAMED VIEW Q WITH (fragments = 2, partitions = 2) AS
SELECT STREAMED X.k, Y.v, COUNT(*) AS n
FROM (SELECT k, COUNT(*) AS n FROM A GROUP BY k) AS X JOIN (SELECT v, COUNT(*) AS m FROM A GROUP BY v) AS Y ON X.n = Y.m
GROUP BY X.k, Y.v"""


@pytest.mark.parametrize("fragment", ["0", "1"])
@pytest.mark.parametrize("life", ["", "; PAUSE QUERY Q"], ids=["running", "paused"])
def test_a_lane_reads_all_that_its_results_wait_for(fragment: str, life: str) -> None:
    """Otherwise the executor cannot tell how far they are, and ends."""
    catalog, _ = apply_all(SQL + life, environment=FakeEnvironment({"t": {0: 0, 1: 0}}, fragments=2))
    revision = revised(plan_fragment(catalog, 2, fragment=fragment), Manifest(targets=2), ())
    for name, lane in revision.lanes.items():
        for output in lane.outputs:
            assert lane.leaves(output) <= lane.sources.keys(), output.id
            assert query_frontier(output, lane, revision.manifest.lanes[name]) == BEGINNING
