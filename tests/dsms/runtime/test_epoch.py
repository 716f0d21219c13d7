"""The executor without services: results are a function of the logs, for all epochs, targets and crashes."""

from __future__ import annotations

import json
from collections import Counter

from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from dsms.planner.physical.fragment_plan import compile_lane, plan_fragment
from tests.support.fake_environment import FakeEnvironment, apply_all
from tests.support.pure_executor import World, run

SQL = """REGISTER SOURCE T (k VARCHAR, v INT) FROM t SLACK 2;
CREATE STREAM S OVER T KEY k; CREATE STREAM A OVER T KEY NULL;
CREATE STREAMED VIEW Hot AS SELECT k, v FROM R(S) WHERE v > 1;
CREATE QUERY Since AS SELECT k, TS AS since FROM R(Hot);
CREATE QUERY Bag AS SELECT v FROM R(S);
CREATE QUERY Every AS SELECT v, 6 / v AS q FROM R(A);
CREATE QUERY Hot0 AS SELECT k, v FROM R(S) WHERE v > 0; CREATE QUERY Hot2 AS SELECT k, v FROM R(S) WHERE v > 2;"""
#: Hot2 to Hot4 are a family, and so are Faulty1 and Faulty0.
MORE = """CREATE QUERY Hot3 AS SELECT k, v FROM R(S) WHERE v > -1;
CREATE QUERY Hot4 AS SELECT k, v FROM R(S) WHERE v > -2;
CREATE QUERY Faulty3 AS SELECT v, 6 / v AS q FROM R(A) WHERE v < 3;
CREATE QUERY Faulty2 AS SELECT v, 6 / v AS q FROM R(A) WHERE v < 2;
CREATE QUERY Faulty1 AS SELECT v, 6 / v AS q FROM R(A) WHERE v < 1;
CREATE QUERY Faulty0 AS SELECT v, 6 / v AS q FROM R(A) WHERE v < 0;
CREATE QUERY HotToo AS SELECT k, v FROM R(S) WHERE v > 1;
CREATE QUERY Counts AS SELECT k, COUNT(*) AS n FROM R(Hot)
GROUP BY k;
CREATE QUERY Faulty AS SELECT v, 6 / v AS q FROM R(A); CREATE QUERY Total AS SELECT SUM(v) AS s FROM R(S)"""
RECORD = st.tuples(
    st.sampled_from("abc"), st.integers(-1, 3), st.integers(0, 12), st.sampled_from([None, None, None, "-", "bad"])
)
LOGS = st.lists(st.lists(RECORD, max_size=12), min_size=1, max_size=3)


def message(offset: int, record) -> Message:
    k, v, ts, kind = record
    body = b"{" if kind == "bad" else json.dumps({"k": k, "v": v}).encode()
    headers = [("dsms-op", b"-")] if kind == "-" else []
    return Message(topic="t", partition=0, offset=offset, key=None, value=body, headers=headers, timestamp=(1, ts))


def world_of(logs) -> tuple[World, object]:
    messages = {p: [message(at, record) for at, record in enumerate(log)] for p, log in enumerate(logs)}
    catalog, _ = apply_all(SQL, environment=FakeEnvironment({"t": {p: 0 for p in messages}}))
    return World({"t": messages}), catalog


def run_with(logs, targets, limits, crash_at=None, then=None, schedule=None) -> World:
    """Runs the queries over the logs. From epoch `then` on, there are more queries; `schedule` says which stages
    wait."""
    world, catalog = world_of(logs)
    more = None if then is None else (then, apply_all(MORE, catalog)[0])
    return run(world, catalog, targets, limits, crash_at, more, schedule=schedule)


@given(LOGS, st.integers(1, 3), st.lists(st.integers(1, 9), min_size=1, max_size=4), st.none() | st.integers(0, 5))
def test_results_are_a_function_of_the_logs(logs, targets, limits, crash_at) -> None:
    whole = run_with(logs, 1, [1000])
    cut = run_with(logs, targets, limits, crash_at)
    assert cut.written == whole.written
    assert Counter(map(repr, cut.dead)) == Counter(map(repr, whole.dead))


@given(
    LOGS,
    st.integers(1, 2),
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
    st.none() | st.integers(0, 5),
    st.integers(1, 4),
)
def test_queries_that_come_later_change_nothing_and_miss_nothing(logs, targets, limits, crash_at, then) -> None:
    whole = run_with(logs, 1, [1000], then=0)
    cut = run_with(logs, targets, limits, crash_at, then)
    assert cut.written == whole.written
    assert Counter(map(repr, cut.dead)) == Counter(map(repr, whole.dead))


@given(
    LOGS,
    st.integers(1, 3),
    st.lists(st.integers(0, 9), min_size=1, max_size=4).filter(any),
    st.none() | st.integers(0, 8),
    st.none() | st.integers(1, 4),
    st.lists(st.integers(0, 9), max_size=60),
)
def test_stages_may_wait_for_each_other(logs, targets, limits, crash_at, then, schedule) -> None:
    whole = run_with(logs, 1, [1000], then=None if then is None else 0)
    cut = run_with(logs, targets, limits, crash_at, then, schedule)
    assert cut.written == whole.written
    assert Counter(map(repr, cut.dead)) == Counter(map(repr, whole.dead))


def test_queries_that_differ_in_constants_run_as_one() -> None:
    _, catalog = world_of([[]])
    lane = compile_lane("lane", plan_fragment(apply_all(MORE, catalog)[0], 1).queries.values())
    grouped = {output.name for output in lane.outputs if output.member is not None}
    assert grouped == {"Hot2", "Hot3", "Hot4", "Faulty1", "Faulty0"}


@given(LOGS)
def test_published_results_fold_to_the_relation_of_the_closed_instants(logs) -> None:
    """The oracle drops late records per partition and takes the last record of each key by (instant, partition,
    offset). Only instants below the least frontier are compared."""
    world = run_with(logs, 2, [4])
    frontier = min((max((r[2] for r in log if r[3] != "bad"), default=-(10**9)) - 2) for log in logs)
    last: dict = {}
    accepted = []
    for p, log in enumerate(logs):
        high = -(10**9)
        for offset, (k, v, ts, kind) in enumerate(log):
            if kind == "bad" or ts < high - 2:
                continue
            high = max(high, ts)
            accepted.append((ts, p, offset, k, v, kind))
    for ts, _, _, k, v, kind in sorted(accepted):
        if ts < frontier:
            last[k] = None if kind == "-" else v
    folded: dict = {}
    for key, value, _ in world.results["o4"]:
        folded[json.loads(key)["k"]] = None if value is None else json.loads(value)["v"]
    expected = {k: v for k, v in last.items() if v is not None and v > 1}
    assert {k: v for k, v in folded.items() if v is not None} == expected
