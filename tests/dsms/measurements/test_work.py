"""Measurements of operators: rows are compared with counts in plain Python, and rates with their definition."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.measurements.work import HALF_LIFE_S, FragmentMetrics, VertexMetrics, Work
from dsms.testing import LocalSession
from tests.dsms.runtime.test_epoch import message
from tests.support.fake_environment import apply_all
from tests.support.pure_executor import World, epoch, start

SQL = """REGISTER SOURCE T (k VARCHAR, v INT) FROM t; CREATE STREAM A OVER T KEY NULL;
REGISTER SOURCE U (k VARCHAR, w INT) FROM u; CREATE STREAM B OVER U KEY NULL;
CREATE QUERY Some AS SELECT k, v FROM A WHERE v > 2;
CREATE QUERY Pairs AS SELECT a.k, a.v, b.w FROM A a JOIN B b ON a.k = b.k;
CREATE QUERY Counts AS SELECT k, COUNT(*) AS n FROM A GROUP BY k"""
KEYS = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 5)), max_size=40)


def measured(session: LocalSession, operator: str, query: str) -> list[dict]:
    return [row for row in session.execute(f"SHOW OPERATORS FOR {query}") if row["operator"] == operator]


def filled(left, right, partitions: int, batch: int | None) -> LocalSession:
    session = LocalSession(partitions, batch)
    session.execute(SQL)
    session.push("T", [{"k": k, "v": v, "ts": at} for at, (k, v) in enumerate(left)])
    session.push("U", [{"k": k, "w": w, "ts": at} for at, (k, w) in enumerate(right)])
    session.advance(100)
    return session


@settings(max_examples=8, deadline=None)
@given(KEYS, KEYS, st.integers(1, 3), st.sampled_from([None, 3, 7]))
def test_rows_are_those_that_plain_python_counts(left, right, partitions, batch) -> None:
    session = filled(left, right, partitions, batch)
    (source,) = measured(session, "Source", "Some")
    assert (source["rows in"], source["rows out"]) == (len(left), len(left))
    kept = sum(v > 2 for _, v in left)
    if left:
        (some,) = measured(session, "Filter", "Some")
        assert (some["rows in"], some["rows out"]) == (len(left), kept)
        assert some["selectivity"] == pytest.approx(kept / len(left), rel=0.1)
        (groups,) = measured(session, "GroupBy", "Counts")
        assert groups["rows in"] == len(left) and len(left) >= groups["state rows"] >= len({k for k, _ in left})
    theirs = Counter(k for k, _ in right)
    (join,) = measured(session, "Join", "Pairs")
    assert (join["rows in"], join["rows out"]) == (len(left) + len(right), sum(theirs[k] for k, _ in left))


@settings(max_examples=8, deadline=None)
@given(KEYS, st.integers(1, 3), st.integers(1, 9), st.integers(1, 3))
def test_workers_report_the_same_work_to_the_driver(records, targets, limit, tasks) -> None:
    """Compares the rows that pass the exchanges, summed over partitions, targets and epochs."""
    logs = [[message(at, (k, v, at, None)) for at, (k, v) in enumerate(records[part::2])] for part in range(2)]
    catalog, _ = apply_all(
        "REGISTER SOURCE T (k VARCHAR, v INT) FROM t; CREATE STREAM A OVER T KEY NULL;"
        "CREATE QUERY Counts AS SELECT k, COUNT(*) AS n FROM A WHERE v > 2 GROUP BY k"
    )
    world = World({"t": dict(enumerate(logs))})
    metrics, lane = _all_epochs(world, start(catalog, targets), limit, tasks)
    sums = {type(vertex.operator).__name__: key for vertex, key in zip(lane.flow.vertices, lane.flow.keys, strict=True)}
    source, kept = metrics.of(lane.id, sums["NoneType"]), sum(v > 2 for _, v in records)
    assert (sum(source.rows_in), source.rows_out) == (len(records), len(records))
    assert source.bytes_in == sum(len(record.value()) for log in logs for record in log)
    assert metrics.of(lane.id, sums["Filter"]).rows_out == kept
    # the last rows wait for the frontier
    assert sum(metrics.of(lane.id, sums["Reorder"]).rows_in) == kept
    assert sum(metrics.of(lane.id, sums["GroupBy"]).rows_in) == metrics.of(lane.id, sums["Reorder"]).rows_out


def _all_epochs(world, revision, limit, tasks):
    from dsms.runtime.lanes.revision import revised

    metrics, (lane,) = FragmentMetrics(0.0), revision.lanes.values()
    for number in range(1, 200):
        done = epoch(world, revision, limit, tasks)
        metrics = metrics.after(float(number), done.measured.work)
        if not done.measured.records:
            return metrics, lane
        revision = revised(revision.plan, done.manifest, (), revision)
    raise AssertionError("the log was never read to its end")


RUNS = st.lists(st.tuples(st.floats(0, 50), st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=20)


@given(RUNS, st.floats(0, 100))
def test_a_rate_is_the_weighted_sum_of_its_definition(runs, later) -> None:
    """The weight of a row halves every HALF_LIFE_S. The weights of all seconds since the beginning add up to one."""
    runs = sorted(runs)
    known = VertexMetrics(since=0.0, at=0.0)
    for at, came, gave in runs:
        known = known.after(at, 0, Work((came,), gave, 2_000_000 * came))
    now = max(runs[-1][0] + later, 1e-3)
    decay = math.log(2) / HALF_LIFE_S
    weights = [decay * math.exp(-decay * (now - at)) / (1 - math.exp(-decay * now)) for at, *_ in runs]
    expected = [sum(w * run[part] for w, run in zip(weights, runs, strict=True)) for part in (1, 2)]
    rows, given_back, busy = known.rates(now)
    assert (rows, given_back) == pytest.approx(tuple(expected), rel=1e-6, abs=1e-9)
    assert busy == pytest.approx(expected[0] * 0.002, rel=1e-6, abs=1e-9)
    assert (known.rows_in, known.rows_out) == ((sum(run[1] for run in runs),), sum(run[2] for run in runs))


def test_cost_and_selectivity_follow_the_last_seconds() -> None:
    known = VertexMetrics(since=0.0, at=0.0).after(1.0, 0, Work((1000,), 1000, 1_000_000_000))
    assert (known.selectivity, known.cost) == (1.0, 0.001)
    known = known.after(1.0 + 20 * HALF_LIFE_S, 0, Work((1000,), 0, 2_000_000_000))
    assert known.selectivity == pytest.approx(0, abs=1e-5) and known.cost == pytest.approx(0.002, rel=1e-5)
    idle = known.after(1e7, 0, Work((0,), 0, 0))
    assert (idle.selectivity, idle.cost) == (0.5, 0.0015)
    assert (VertexMetrics(since=0.0, at=0.0).selectivity, VertexMetrics(since=0.0, at=0.0).cost) == (None, None)


def test_an_idle_operator_costs_what_its_rows_cost() -> None:
    """Runs without rows take time too, and windows output rows long after the last input row."""
    known = VertexMetrics(since=0.0, at=0.0).after(1.0, 0, Work((1000,), 1000, 1_000_000_000))
    for second in range(2, 2000):
        known = known.after(float(second), 0, Work((0,), 1, 5_000_000))
        assert known.cost == pytest.approx(0.001)
        assert known.selectivity is not None and 0.5 < known.selectivity < 20
    assert known.busy_ns == 1_000_000_000 + 1998 * 5_000_000
    silent = VertexMetrics(since=0.0, at=0.0).after(1.0, 0, Work((0,), 0, 5_000_000))
    assert (silent.cost, silent.selectivity) == (None, None)


def test_state_is_that_of_the_last_run_on_each_target() -> None:
    known = VertexMetrics(since=0.0, at=0.0)
    for target, rows in ((0, 5), (1, 7), (0, 2)):
        known = known.after(1.0, target, Work((1,), 1, 1, rows, 10 * rows))
    assert (known.state_rows, known.state_bytes) == (9, 90)


def test_measured_inputs_may_be_added_and_removed() -> None:
    """A replaced query also reads the input of its former version until that is no longer needed."""
    known = VertexMetrics(since=0.0, at=0.0)
    for rows in ((1, 2), (10,), (5, 5)):
        known = known.after(1.0, 0, Work(rows, 1, 1))
    assert known.rows_in == (16, 7)


def test_measurements_survive_while_lanes_come_and_go() -> None:
    work = Work((10,), 5, 100, 3, 30)
    both = FragmentMetrics(0.0).after(1.0, [("o1", "a", 0, work), ("o2", "a", 0, work), ("o2", "b", 0, work)])
    merged = both.kept({"o1": {"a", "b"}})
    assert (merged.of("o1", "a").rows_in, merged.of("o1", "a").state_rows) == ((20,), 3)
    assert merged.of("o1", "b").rows_in == (10,)
    assert merged.kept({"o1": {"b"}}).by_vertex.keys() == {("o1", "b")}
    assert merged.kept({"o7": {"a"}}).of("o7", "a").rows_in == (20,)


def test_merged_lanes_of_a_session_count_the_input_of_both() -> None:
    """A query that is added later reads the log in its own lane before it joins the lane of the others."""
    session = LocalSession()
    session.execute("REGISTER SOURCE T (k VARCHAR, v INT) FROM t; CREATE STREAM A OVER T KEY NULL")
    session.execute("CREATE QUERY Some AS SELECT k FROM A WHERE v > 2")
    session.push("T", [{"k": "a", "v": at, "ts": at} for at in range(10)])
    session.advance(20)
    session.execute("CREATE QUERY More AS SELECT v FROM A WHERE v > 2")
    (source,) = measured(session, "Source", "More")
    (some,) = measured(session, "Filter", "Some")
    assert source["rows in"] % 10 == 0 and source["rows in"] >= 20
    assert some["queries"] == "Some, More" and some["rows in"] == 20
