"""Windows whose size has a range: results are a function of the logs and of the logged sizes, and the sizes keep the
state within its bound."""

from __future__ import annotations

import copy
import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.measurements.work import FragmentMetrics
from dsms.model.catalog import Catalog
from dsms.runtime.lanes.revision import revised, running_lanes
from dsms.runtime.shedding.settings import last_logged
from dsms.runtime.shedding.window_sizes import WindowSizes
from dsms.testing import LocalSession
from operators.core.errors import UserError
from tests.dsms.runtime.test_epoch import message
from tests.support.fake_environment import FakeEnvironment, apply_all
from tests.support.pure_executor import World, epoch, publish, run, start

LEAST, MOST = 2, 8
SQL = f"""REGISTER SOURCE T (k VARCHAR, v INT) FROM t; CREATE STREAM A OVER T KEY NULL;
CREATE QUERY Q WITH (memory = '1 GB') AS
    SELECT STREAMED k, COUNT(*) AS n, SUM(v) AS s FROM A [Range Min {LEAST} Max {MOST}] WHERE v > 1 GROUP BY k;
CREATE QUERY Pairs WITH (memory = '1 GB') AS
    SELECT STREAMED a.v, b.v AS w FROM A [Range Min 0 Max {MOST}] a, A [Range Min 1 Max 4] b WHERE a.k = b.k;
CREATE QUERY Plain AS SELECT STREAMED k, COUNT(*) AS n FROM A [Range Min {LEAST} Max {MOST}] GROUP BY k;
CREATE QUERY Fixed AS SELECT STREAMED k, COUNT(*) AS n FROM A [Range {MOST}] GROUP BY k;"""
FRACTIONS = st.sampled_from([1.0, 0.75, 0.5, 0.0])
RECORD = st.tuples(st.sampled_from("abc"), st.integers(1, 3), st.integers(0, 25), st.just(None))
Sizes = dict[str, dict[tuple[str, int], list[tuple[int, float]]]]


def ran(logs, targets, limits, crash_at=None, fractions=None, sizes: Sizes | None = None):
    messages = {p: [message(at, record) for at, record in enumerate(log)] for p, log in enumerate(logs)}
    catalog, _ = apply_all(SQL, environment=FakeEnvironment({"t": dict.fromkeys(messages, 0)}))
    world = World({"t": messages}, sheds=copy.deepcopy(sizes) if sizes else {})
    ids = {query.name: query.id for query in catalog.queries()}
    wanted = None if fractions is None else [{ids["Q"]: part, ids["Pairs"]: 1 - part} for part in fractions]
    return run(world, catalog, targets, limits, crash_at, rates=wanted), ids


@settings(max_examples=6)
@given(
    st.lists(st.lists(RECORD, min_size=8, max_size=24), min_size=1, max_size=2),
    st.integers(1, 3),
    st.lists(st.integers(6, 20), min_size=1, max_size=4),
    st.none() | st.integers(0, 5),
    st.lists(FRACTIONS, min_size=1, max_size=5),
)
def test_results_are_a_function_of_the_logs_and_of_the_logged_sizes(logs, targets, limits, crash_at, fractions) -> None:
    """Sizes change with every epoch, and are decided again after a crash. The results equal those of one epoch that
    uses only the logged sizes, and the groups equal those that are counted record by record."""
    logs = [sorted(log, key=lambda record: record[2]) for log in logs]
    cut, ids = ran(logs, targets, limits, crash_at, fractions)
    whole, _ = ran(logs, 1, [1000], sizes=cut.sheds)
    assert cut.written == whole.written
    assert cut.results.get(ids["Plain"]) == cut.results.get(ids["Fixed"])
    frontier = min(log[-1][2] for log in logs)
    at = counted(logs, cut.sheds.get(ids["Q"], {}), frontier - 1)
    assert last(cut.results.get(ids["Q"], [])) == at


def counted(logs, sizes: Mapping[tuple[str, int], list[tuple[int, float]]], tau: int) -> dict[str, tuple[int, int]]:
    """The groups at an instant, from the records and the logged sizes."""
    groups: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for partition, log in enumerate(logs):
        for offset, (k, v, ts, _) in enumerate(log):
            decided = sizes.get(("o1", partition), [])
            fraction = ([1.0] + [part for first, part in decided if first <= offset])[-1]
            if v > 1 and ts <= tau <= ts + LEAST + int(fraction * (MOST - LEAST)):
                groups[k][0] += 1
                groups[k][1] += v
    return {k: (n, s) for k, (n, s) in groups.items()}


def last(results) -> dict[str, tuple[int, int]]:
    """The groups after all changes."""
    rows = {}
    for key, value, _ in results:
        k = json.loads(key)["k"]
        rows.pop(k, None)
        if value is not None:
            row = json.loads(value)
            rows[k] = (row["n"], row["s"])
    return rows


# --- the choice of sizes

BOUND, MIN_MS, MAX_MS = 150_000, 500, 20_000
BOUNDED = f"""REGISTER SOURCE T (k VARCHAR, v INT) FROM t; CREATE STREAM A OVER T KEY NULL;
CREATE QUERY Q WITH (memory = '{BOUND}') AS
    SELECT STREAMED k, MAX(v) AS m FROM A [Range Min {MIN_MS} Max {MAX_MS}] GROUP BY k;"""


@dataclass
class Running:
    """An executor in one process. It decides the sizes of windows after each epoch, which lasts a second."""

    sql: str = BOUNDED
    now: int = 0
    sizes: WindowSizes = field(default_factory=WindowSizes)
    metrics: FragmentMetrics = field(default_factory=lambda: FragmentMetrics(0.0))
    bytes: list[int] = field(default_factory=list)
    fractions: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.catalog: Catalog
        self.catalog, _ = apply_all(self.sql, environment=FakeEnvironment({"t": {0: 0}}))
        self.world, self.revision = World({"t": {0: []}}), start(self.catalog, 1)
        self.rng = np.random.default_rng(3)

    def run(self, rate: int, seconds: int) -> None:
        """Runs epochs of a second with `rate` records each."""
        for _ in range(seconds):
            self._arrive(rate)
            manifest = self.revision.manifest
            self.revision = revised(self.revision.plan, manifest, (), self.revision)
            standing = {lane: progress.places for lane, progress in running_lanes(self.revision, ()).items()}
            self.world.shed(self.revision, standing, self.sizes.fractions)
            done = epoch(self.world, self.revision, 10**6, tasks=1)
            publish(self.world, done)
            self.revision = replace(self.revision, manifest=done.manifest)
            at = self.now / 1000
            self.metrics = self.metrics.after(at, done.measured.work)
            self.sizes = self.sizes.after(self.revision, self.metrics, at, last_logged(self.world.sheds))
            self.bytes.append(sum(measured.state_bytes for measured in self.metrics.by_vertex.values()))
            self.fractions.extend(self.sizes.fractions.values())

    def _arrive(self, rate: int) -> None:
        log = self.world.logs["t"][0]
        for at in np.sort(self.rng.integers(1000, size=rate)):
            record = (f"k{self.rng.integers(40)}", int(self.rng.integers(1000)), self.now + int(at), None)
            log.append(message(len(log), record))
        self.now += 1000


def test_state_stays_within_its_bound_when_the_rate_rises_and_windows_grow_again_when_it_falls() -> None:
    """A fifth of the bound is a reserve for the time until rows have left the window of the former size."""
    running = Running()
    running.run(50, 30)
    assert running.sizes.fractions == {running.catalog.find("Q").id: 1.0}
    calm = max(running.bytes)
    assert 0 < calm < BOUND
    running.run(400, 60)
    burst = running.fractions[-1]
    assert 0.05 < burst < 0.5
    steady = running.bytes[-20:]
    assert BOUND / 3 < max(steady) <= BOUND * 1.1
    running.run(50, 60)
    assert running.fractions[-1] == 1.0 and max(running.bytes[-10:]) < BOUND
    changes = sum(before != after for before, after in zip(running.fractions, running.fractions[1:], strict=False))
    assert changes <= 30, running.fractions


def test_restarted_executor_continues_with_the_logged_window_size() -> None:
    running = Running()
    running.run(400, 60)
    before, logged = running.fractions[-1], copy.deepcopy(running.world.sheds)
    assert before < 0.5
    running.sizes, running.metrics, running.fractions = WindowSizes(), FragmentMetrics(0.0), []
    running.run(0, 2)
    running.run(400, 1)
    assert running.world.sheds == logged and running.fractions[:2] == [before] * 2


def test_bound_too_small_for_the_least_windows_is_reported() -> None:
    running = Running(BOUNDED.replace(f"'{BOUND}'", "'2 KB'"))
    running.run(200, 20)
    (size,) = running.sizes.sizes.values()
    assert (size.fraction, size.fits) == (0.0, False)


def test_nothing_is_decided_for_queries_without_a_bound() -> None:
    running = Running(BOUNDED.replace(f"WITH (memory = '{BOUND}')", ""))
    running.run(200, 3)
    assert running.sizes == WindowSizes() and running.world.sheds == {}


# --- refusals


@pytest.mark.parametrize(
    ("statement", "message_"),
    [
        ("CREATE QUERY Q WITH (memory = '1 MB') AS SELECT k FROM A [Range 5]", "column 22: MEMORY needs a window"),
        ("CREATE VIEW Q WITH (memory = '1 MB') AS SELECT k FROM A [Range Min 1 Max 5]", "MEMORY needs a query"),
        (
            "CREATE QUERY Q WITH (memory = '1 MB', max_error = 0.1) AS SELECT COUNT(*) AS n FROM A [Range Min 1 Max 5]",
            "MAX_ERROR cannot be combined with a window with a range",
        ),
        ("CREATE QUERY Q WITH (memory = 'much') AS SELECT k FROM A [Range Min 1 Max 5]", "memory needs a size"),
        ("CREATE QUERY Q AS SELECT k FROM A [Range Min 9 Max 5]", "MIN of the window is greater than its MAX"),
        ("CREATE QUERY Q AS SELECT k FROM A [Range Min 1 Max 5 Slide 2]", "cannot have a SLIDE"),
        ("CREATE QUERY Q AS SELECT k FROM A [Rows Min 1 Max 5]", "write RANGE MIN"),
        ("CREATE QUERY Q AS SELECT k FROM A [Range Min 1]", "expected MAX"),
        (
            "CREATE QUERY Q WITH (memory = '1 MB') AS SELECT n FROM (SELECT Istream(k, n) FROM "
            "(SELECT k, COUNT(*) AS n FROM A [Range 5] GROUP BY k)) [Range Min 1 Max 5]",
            "needs a stream over a source",
        ),
        (
            "REGISTER SOURCE C (k VARCHAR) FROM c CONSTRAINT CLUSTERED BY k WITHIN 9; CREATE STREAM B OVER C KEY NULL; "
            "CREATE QUERY Q WITH (memory = '1 MB') AS SELECT k, COUNT(*) AS n FROM B [Range Min 1 Max 5] GROUP BY k",
            "cannot be over a source with CLUSTERED BY or REFERENCES",
        ),
    ],
)  # fmt: skip
def test_unadjustable_windows_are_refused(statement: str, message_: str) -> None:
    session = LocalSession()
    session.execute("REGISTER SOURCE T (k VARCHAR, v INT) FROM t; CREATE STREAM A OVER T KEY NULL")
    with pytest.raises(UserError, match=message_):
        session.execute(statement)


@pytest.mark.parametrize("window", ["[Range Min 5 Max 10]", "WINDOW(RANGE MIN 6, MAX 11)"])
def test_both_notations_and_one_time_selects_have_the_greatest_size(window: str) -> None:
    session = LocalSession()
    session.execute("REGISTER SOURCE T (k VARCHAR, v INT) FROM t; CREATE STREAM A OVER T KEY NULL")
    session.execute(f"CREATE VIEW Q AS SELECT COUNT(*) AS n FROM A {window}")
    session.push("T", [{"k": "a", "v": at, "ts": at} for at in range(30)])
    session.advance(30)
    assert session.relation("Q") == [{"n": 11}]
    assert "RangedWindow" not in session.explain("Q")
