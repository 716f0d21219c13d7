"""Lanes that are passed by file name: they equal the stored lanes, each process reads them once, and no file is
left."""

from __future__ import annotations

import gc
import pickle
import weakref
from pathlib import Path

import pytest

from dsms.planner.physical.fragment_plan import compile_lane, planned
from dsms.planner.physical.lane import Lane
from dsms.runtime.stages.lane_files import LaneFiles
from operators.core.errors import ExternalError
from tests.support.fake_environment import FakeEnvironment, apply_all

SQL = """REGISTER SOURCE T (k INT, v BIGINT) FROM t; CREATE STREAM S OVER T KEY NULL;
CREATE QUERY A AS SELECT k, SUM(v) AS s FROM S GROUP BY k; CREATE QUERY B AS SELECT k, MAX(v) AS m FROM S GROUP BY k"""


def lanes() -> list[Lane]:
    catalog, _ = apply_all(SQL, environment=FakeEnvironment({"t": {0: 0}}))
    return [compile_lane(query.id, [planned(query, catalog)]) for query in catalog.queries()]


def again(lane: Lane) -> Lane:
    """The lane as another process receives it."""
    received = pickle.loads(pickle.dumps(lane))
    assert isinstance(received, Lane)
    return received


def test_lane_is_passed_unchanged_by_a_short_name(tmp_path: Path) -> None:
    files, (lane, other) = LaneFiles(tmp_path / "lanes"), lanes()
    received = again(files.filed(lane))
    assert (received.id, received.outputs, received.flow.keys) == (lane.id, lane.outputs, lane.flow.keys)
    assert len(pickle.dumps(files.filed(lane))) < 300 < len(pickle.dumps(lane))
    assert files.filed(lane) is files.filed(lane) and again(files.filed(other)).id == other.id
    assert again(received) is received  # this process has cached it


def test_only_wanted_lane_files_are_kept(tmp_path: Path) -> None:
    files, (lane, other) = LaneFiles(tmp_path / "lanes"), lanes()
    files.filed(lane)
    files.filed(other)
    files.keep([other])
    (left,) = (tmp_path / "lanes").iterdir()
    assert again(files.filed(other)).id == other.id
    assert files.filed(lane).id == lane.id and len(list(left.parent.iterdir())) == 2


def test_lane_that_no_longer_runs_is_dropped_when_another_is_read(tmp_path: Path) -> None:
    files, (lane, other) = LaneFiles(tmp_path / "lanes"), lanes()
    name, filed = pickle.dumps(files.filed(lane)), weakref.ref(again(files.filed(lane)))
    files.filed(other)
    files.keep([other])
    assert filed() is pickle.loads(name)  # a late task still has it
    again(files.filed(other))
    gc.collect()
    assert filed() is None


def test_lanes_are_sent_inline_without_a_directory() -> None:
    (lane, _) = lanes()
    files = LaneFiles(None)
    assert files.filed(lane) is lane
    files.keep([])


def test_a_damaged_file_is_an_error_and_no_other_lane(tmp_path: Path) -> None:
    files, (lane, _) = LaneFiles(tmp_path / "lanes"), lanes()
    name = pickle.dumps(files.filed(lane))
    (file,) = (tmp_path / "lanes").iterdir()
    written = file.read_bytes()
    for at in range(0, len(written), len(written) // 50):
        file.write_bytes(written[:at] + bytes([written[at] ^ 4]) + written[at + 1 :])
        with pytest.raises(ExternalError, match="is damaged"):
            pickle.loads(name)
    file.write_bytes(written)
    assert pickle.loads(name).id == lane.id
