"""Internal logs that have lost records: which queries stop, and which do not need the lost records."""

from __future__ import annotations

from dataclasses import replace

from dsms.measurements.work import FragmentMetrics
from dsms.planner.physical.fragment_plan import plan_fragment
from dsms.runtime.batching.batch_size import BatchSize
from dsms.runtime.epoch.cut_logs import CutLog, CutLogs, stopped
from dsms.runtime.epoch.progress_log import Published
from dsms.runtime.fragment.state import FragmentState, PlanChanged, ReportFailure, advance
from dsms.runtime.lanes.manifest import LaneManifest, Manifest, Position
from dsms.runtime.lanes.revision import Revision, revised
from dsms.scheduling.tuning import TunableSettings
from tests.support.fake_environment import FakeEnvironment, apply_all

SQL = """
    REGISTER SOURCE T (k INT) FROM t IDLE {idle}; CREATE STREAM S OVER T KEY NULL;
    CREATE QUERY V WITH (topic = 'v'{options}) AS SELECT STREAMED COUNT(*) AS n FROM S;
"""


def revision(offset: int, frontier: int, *, idle: str = "AFTER 1 SECOND", options: str = "") -> Revision:
    """A revision with one query, V, whose lane is at an offset of the only partition and at a frontier."""
    catalog, _ = apply_all(SQL.format(idle=idle, options=options), environment=FakeEnvironment({"t": {0: 0}}))
    plan = plan_fragment(catalog, 1)
    (query,) = plan.queries
    (source,) = catalog.sources()
    (begun,) = revised(plan, Manifest(targets=1), ()).lanes.values()
    vertices = zip(begun.flow.keys, begun.flow.vertices, strict=True)
    runs = {key: [[] for _ in vertex.operator.traces()] for key, vertex in vertices if vertex.operator}
    lane = LaneManifest((query,), {source.id: {0: Position(offset, frontier, frontier)}}, [runs])
    return revised(plan, Manifest(lanes={query: lane}, targets=1), ())


def published(at: Revision, upto: int | None) -> Published:
    (query,) = at.plan.queries
    return Published({} if upto is None else {query: upto}, {})


def kept(at: Revision, offset: int) -> dict[tuple[str, int], int]:
    (lane,) = at.manifest.lanes.values()
    return {(next(iter(lane.positions)), 0): offset}


BEATS = CutLog("_dsms.c.heartbeats", 0, 42)
RATES = CutLog("_dsms.c.shed", 0, 7)
PROGRESS = CutLog("_dsms.c.progress", 0, 9)


def test_complete_logs_stop_no_query() -> None:
    assert stopped(revision(0, 0), published(revision(0, 0), 9), CutLogs()) == {}


def test_query_stops_if_it_would_be_recomputed_without_its_heartbeats() -> None:
    at = revision(3, 5)
    ((_, reason),) = stopped(at, published(at, 9), CutLogs(heartbeats=BEATS)).items()
    assert 'offsets 0 to 41 of topic "_dsms.c.heartbeats" partition 0 are gone' in reason


def test_query_whose_state_equals_its_published_progress_continues() -> None:
    at = revision(3, 9)
    assert stopped(at, published(at, 9), CutLogs(heartbeats=BEATS)) == {}
    assert stopped(at, published(at, None), CutLogs(heartbeats=BEATS)) == {}


def test_query_needs_only_heartbeats_from_its_position_on() -> None:
    at = revision(3, 5)
    assert stopped(at, published(at, 9), CutLogs(heartbeats=replace(BEATS, kept=kept(at, 3)))) == {}
    assert len(stopped(at, published(at, 9), CutLogs(heartbeats=replace(BEATS, kept=kept(at, 4))))) == 1


def test_a_source_that_is_never_idle_has_no_heartbeats_to_lose() -> None:
    at = revision(3, 5, idle="NEVER")
    assert stopped(at, published(at, 9), CutLogs(heartbeats=BEATS)) == {}


def test_only_queries_that_may_be_shed_need_the_rates() -> None:
    exact, shed = revision(3, 5), revision(3, 5, options=", max_error = 0.1")
    assert stopped(exact, published(exact, 9), CutLogs(shed=RATES)) == {}
    assert len(stopped(shed, published(shed, 9), CutLogs(shed=RATES))) == 1


def test_a_result_topic_with_records_of_unknown_progress_is_not_written() -> None:
    at = revision(3, 5)
    cut = CutLogs(progress=PROGRESS, written_topics=frozenset({"v"}))
    ((_, reason),) = stopped(at, published(at, None), cut).items()
    assert "it is unknown up to which instant it has published" in reason
    assert stopped(at, published(at, 9), cut) == {}
    assert stopped(at, published(at, None), CutLogs(progress=PROGRESS)) == {}


def test_a_fragment_keeps_a_stopped_query_apart_and_says_why() -> None:
    at = revision(3, 5)
    size = BatchSize(100, 10, 1000, 1.0, 3.0)
    state = FragmentState(
        at.plan, at.manifest, published(at, 9), TunableSettings(10, 1000, 1.0), size, FragmentMetrics(0.0)
    )
    state, instructions = advance(PlanChanged(at.plan, 1.0), replace(state, cut_logs=CutLogs(heartbeats=BEATS)))
    (query,) = at.plan.queries
    assert list(state.failures) == [query]
    assert state.decision.reads == frozenset()
    assert [type(each) for each in instructions][1:] == [ReportFailure]
