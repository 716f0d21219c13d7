"""A plan can be pickled for other processes while other threads read it."""

from __future__ import annotations

import pickle
import sys
import threading
from functools import cached_property
from pathlib import Path

from dsms.planner.physical.fragment_plan import compile_lane, planned
from dsms.planner.physical.lane import Lane
from tests.support.fake_environment import FakeEnvironment, apply_all

SQL = """REGISTER SOURCE T (k INT, v BIGINT) FROM t; CREATE STREAM S OVER T KEY NULL;
CREATE QUERY A AS SELECT k, SUM(v) AS s FROM S WHERE v > 1 GROUP BY k;
CREATE QUERY B AS SELECT k, SUM(v) AS s FROM S WHERE v > 2 GROUP BY k;
CREATE QUERY C AS SELECT k, SUM(v) AS s FROM S WHERE v > 3 GROUP BY k"""


def lane_of() -> Lane:
    catalog, _ = apply_all(SQL, environment=FakeEnvironment({"t": {0: 0}}))
    return compile_lane("l", [planned(query, catalog) for query in catalog.queries()])


def written(lane: Lane, path: Path) -> Lane:
    """A copy through a file. Other threads run while it is written."""
    with path.open("wb") as file:
        pickle.dump(lane, file)
    read = pickle.loads(path.read_bytes())
    assert isinstance(read, Lane)
    return read


def _has_cached_properties(part: object) -> bool:
    return any(isinstance(attribute, cached_property) for attribute in vars(type(part)).values())


def test_plan_can_be_pickled_while_its_properties_change(tmp_path: Path) -> None:
    """While a plan is pickled, all its parts repeatedly gain and lose cached properties."""
    lane, done = lane_of(), threading.Event()
    all_parts = [lane, lane.flow, *lane.flow.vertices, *(vertex.operator for vertex in lane.flow.vertices)]
    parts = [part for part in all_parts if _has_cached_properties(part)]

    def remember() -> None:
        while not done.is_set():
            for part in parts:
                for number in range(50):
                    vars(part)[f"remembered {number}"] = number
                for number in range(50):
                    del vars(part)[f"remembered {number}"]

    other, interval = threading.Thread(target=remember), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    other.start()
    try:
        copies = [written(lane, tmp_path / "plan") for _ in range(300)]
    finally:
        done.set()
        other.join()
        sys.setswitchinterval(interval)
    assert len(parts) > 3 and all(copy.flow.keys == lane.flow.keys for copy in copies)
