"""State is found by its key. The golden file has the keys of every kind of operator, with digests of its state and of
the results above it for one history. If these change but the key does not, stored state would be misinterpreted: raise
the `operator_version` of the operator whose meaning has changed."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator

import polars as pl
import pytest

from dsms.planner.physical.fragment_plan import compile_lane, plan_fragment
from dsms.planner.physical.lane import Lane
from dsms.runtime.stages.lane_step import read_stage, route, target_stage
from operators.core.delta import BEGINNING, Delta, union_all
from operators.core.operator import Step
from operators.core.run import HASH
from operators.relational.distinct import Distinct
from tests.conftest import GOLDEN
from tests.support.fake_environment import FakeEnvironment, apply_all

SOURCES = """
REGISTER SOURCE T (k VARCHAR NOT NULL, v BIGINT, x DOUBLE) FROM t; CREATE STREAM S OVER T KEY k;
REGISTER SOURCE E (k VARCHAR NOT NULL, n BIGINT) FROM e; CREATE STREAM A OVER E KEY NULL;
CREATE STREAMED VIEW Even AS SELECT Timepoint FROM clockStr WHERE Timepoint MOD 2 = 0;
CREATE STREAM B OVER E KEY NULL WITH DELETIONS;
"""
QUERIES = {
    "tagger": "SELECT k, v FROM S",
    "distinct": "SELECT DISTINCT k, n FROM A",
    "group_by": "SELECT k, COUNT(*) AS c, SUM(x) AS s, MIN(v) AS low FROM S GROUP BY k",
    "ordered_group": "SELECT MEDIAN(n) AS m, COUNT(DISTINCT k) AS d FROM A",
    "join": "SELECT S.k, S.v, A.n FROM S JOIN A ON S.k = A.k",
    "outer_join": "SELECT S.k, S.v, A.n FROM S FULL JOIN A ON S.k = A.k AND S.v < A.n",
    "band_join": "SELECT a.k, b.n FROM A a JOIN A b ON a.k = b.k AND b.n BETWEEN a.n - 1 AND a.n + 1",
    "semi_join": "SELECT k, v FROM S WHERE NOT EXISTS (SELECT 1 FROM A WHERE A.k = S.k)",
    "except_all": "SELECT k FROM S EXCEPT ALL SELECT k FROM A",
    "top_k": "SELECT k, n FROM A ORDER BY n DESC, k LIMIT 2",
    "over": "SELECT k, n, SUM(n) OVER (PARTITION BY k ORDER BY n) AS s FROM A",
    "time_window": "SELECT k, COUNT(*) AS c FROM A [RANGE 3 SLIDE 2] GROUP BY k",
    "row_window": "SELECT k, n FROM A [PARTITION BY k ROWS 2]",
    "hop": "SELECT window_start, COUNT(*) AS c FROM HOP(TABLE A, DESCRIPTOR(n), 1, 2) GROUP BY window_start",
    "session": "SELECT k, window_start, COUNT(*) AS c FROM SESSION(TABLE A PARTITION BY k, DESCRIPTOR(n), 1) "
    "GROUP BY k, window_start",
    "now": "SELECT k, v FROM S WHERE Now - 4 < S.TS AND S.TS <= Now",
    "periodic_sync": "SELECT k, COUNT(*) AS c FROM R[Even](A) GROUP BY k",
    "istream": "SELECT ISTREAM(k, n) FROM A [RANGE 2]",
    "dstream": "SELECT DSTREAM(k, n) FROM A [RANGE 2]",
    "rstream": "SELECT RSTREAM(k, n) FROM A [RANGE 2 SLIDE 2]",
    "bag_tagger": "SELECT k, n FROM B",
}
END = 12


def lane_of(select: str) -> Lane:
    kind = "CREATE QUERY Q AS" if "STREAM(" in select else "CREATE STREAMED VIEW Q AS"
    catalog = apply_all(f"{SOURCES}{kind} {select}", environment=FakeEnvironment({"t": {0: 0}, "e": {0: 0}}))[0]
    plan = plan_fragment(catalog, 1)
    return compile_lane("lane", [query for query in plan.queries.values() if query.name == "Q"])


def history(lane: Lane, source: int) -> Delta:
    draw = random.Random(source)
    schema = lane.sources[source].schema
    columns = {"v": lambda: draw.randrange(4), "n": lambda: draw.randrange(6), "x": lambda: draw.randrange(8) / 4}
    rows = []
    for at in range(24):
        row = {name: columns[name]() for name in schema.names if name != "k"}
        rows.append(("+", {"k": draw.choice("abc"), **row}, at // 2))
    return Delta.of(rows, schema)


def contents(select: str) -> Iterator[str]:
    """A line for each vertex with state (key, kind, version and digest of the state), then a line for the results."""
    lane = lane_of(select)
    came: dict[int, list[Delta]] = {}
    for source in lane.sources:
        for exchange, delta in read_stage(lane, source, history(lane, source)).sent.items():
            came.setdefault(exchange, []).extend(route(lane.flow.exchanges[exchange], delta, 1))
    starts, ends = dict.fromkeys(lane.sources, BEGINNING), dict.fromkeys(lane.sources, END)
    results = []
    for stage in range(1, lane.flow.stages + 1):
        arrived = {exchange: union_all(parts) for exchange, parts in came.items()}
        step = target_stage(lane, (stage, 0), arrived, {}, (starts, ends))
        assert not step.failures, step.failures
        came |= {exchange: [delta] for exchange, delta in step.sent.items()}
        results += [frame for _, frame in sorted(step.changes.items())]
        for at, traces in sorted(step.state.items()):
            if traces:
                operator = lane.flow.vertices[at].operator
                runs = [[run.frame for run in trace.runs] for trace in traces]
                version = operator.operator_version
                yield f"{lane.flow.keys[at]} {lane.flow.vertices[at].kind} v{version} {digest(runs)}"
    keys = hashlib.sha256(" ".join(lane.flow.keys).encode()).hexdigest()[:20]
    yield f"{keys} results {digest([results])}"


def digest(traces: list[list[pl.DataFrame]]) -> str:
    """A digest of the contents of traces. It depends neither on their runs nor on the hashes by which runs are
    sorted."""
    parts = []
    for frames in traces:
        shown = [frame.select(pl.exclude(HASH)) for frame in frames if frame.width]
        rows = sorted(repr(row) for frame in shown for row in frame.rows())
        parts.append((shown[0].columns if shown else [], rows))
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


def listed() -> str:
    return "".join(f"{name}\n" + "".join(f"  {line}\n" for line in contents(QUERIES[name])) for name in QUERIES)


def misread(before: str, now: str) -> list[str]:
    """The keys that have different contents in the two texts."""
    known, current = (
        dict(line.rsplit(" ", 1) for line in text.splitlines() if line[:1] == " ") for text in (before, now)
    )
    return [key.strip() for key in known.keys() & current if known[key] != current[key]]


def test_state_keys_identify_the_same_state_as_before(golden) -> None:
    now = listed()
    changed = misread((GOLDEN / "state_keys.txt").read_text(), now)
    assert not changed, f"raise operator_version of what changed its meaning: {changed}"
    golden("state_keys.txt", now)


def test_a_changed_meaning_without_a_changed_version_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    before, step = listed(), Distinct.step

    def doubled(self: Distinct, delta: Delta, *rest) -> Step:
        return step(self, union_all([delta, delta]), *rest)

    monkeypatch.setattr(Distinct, "step", doubled)
    assert {key.split()[1] for key in misread(before, listed())} == {"Distinct"}
    monkeypatch.setattr(Distinct, "operator_version", Distinct.operator_version + 1)
    assert misread(before, listed()) == []
