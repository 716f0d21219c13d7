"""Queries whose input may be shed: their results are exact if nothing is shed, else Horvitz-Thompson estimates. They
are a function of the logs and the logged rates."""

from __future__ import annotations

import copy
import json
from collections import defaultdict

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.registration.replacement import with_halted
from dsms.shedding.observed_input import ObservedInput
from dsms.statements.ddl.replace_query import halt_with_readers
from dsms.statements.registry import apply, parse
from dsms.testing import LocalSession
from operators.core.delta import Delta
from operators.core.errors import UserError
from operators.core.operator import Move
from operators.streams.settings import settings_of
from operators.streams.shed import SHARE, Shed, Value
from tests.dsms.runtime.test_epoch import message
from tests.dsms.runtime.test_life_epochs import Reached
from tests.support.fake_environment import FakeEnvironment, apply_all
from tests.support.pure_executor import World, run
from tests.support.splitmix import SHEDDING, chance, place

SOURCES = """
REGISTER SOURCE T (k INT, v BIGINT, f DOUBLE, d DECIMAL(9, 2)) FROM t;
CREATE STREAM S OVER T KEY NULL; CREATE STREAM K OVER T KEY k;
"""
ALLOWED = "WITH (max_error = 0.05, deadline = '2 s', error_columns = {columns})"
QUERIES = [
    "k, COUNT(*) AS n, SUM(v) AS t, AVG(f) AS a, SUM(d) AS d FROM S GROUP BY k",
    "COUNT(v) AS n, AVG(v) FILTER (WHERE v > 3) AS a, SUM(f) AS f FROM S [Range 5] WHERE v > 2",
    "window_end, k % 3 AS x, AVG(d) AS a, COUNT(*) FILTER (WHERE f < 2) AS n FROM TUMBLE(TABLE S, DESCRIPTOR(TS), 10)"
    " GROUP BY window_end, k % 3 EMIT FINAL",
    "window_end, SUM(v) AS t FROM HOP(TABLE S, DESCRIPTOR(TS), 5, 10) GROUP BY window_end",
    f"k, {', '.join(f'AVG(v) FILTER (WHERE v > {at}) AS a{at}, SUM(f) AS f{at}' for at in range(8))} FROM S GROUP BY k",
]


def rows() -> list[dict[str, object]]:
    return [
        {"k": at % 4, "v": at * 7 % 11 if at % 5 else None, "f": at * 0.1, "d": "1.25" if at % 3 else None, "ts": at}
        for at in range(40)
    ]


@pytest.mark.parametrize("columns", ["false", "true"])
@pytest.mark.parametrize("query", QUERIES)
def test_results_without_shedding_equal_the_exact_query(query: str, columns: str) -> None:
    session = LocalSession(2, 17)
    session.execute(SOURCES + f"CREATE QUERY exact AS SELECT STREAMED {query}")
    session.execute(f"CREATE QUERY shed {ALLOWED.format(columns=columns)} AS SELECT STREAMED {query}")
    session.push("T", rows())
    session.advance(60)
    changes = session.changes("shed")
    if columns == "true":
        assert all((row.pop("_error"), row.pop("_confidence")) == (0.0, 1.0) for _, row, _ in changes)
    assert changes == session.changes("exact") != []


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT k, v FROM S", "a query without an aggregate"),
        ("SELECT k, MAX(v) AS m FROM S GROUP BY k", "MAX: a single row can determine its value"),
        ("SELECT COUNT(DISTINCT v) AS n FROM S", "DISTINCT in an aggregate"),
        ("SELECT COUNT(*) AS n FROM (SELECT DISTINCT k FROM S) D", "over DISTINCT"),
        ("SELECT COUNT(*) AS n FROM S, K WHERE S.k > K.k", "over a join"),
        (
            "SELECT n FROM (SELECT COUNT(*) AS n FROM S) A WHERE NOT EXISTS (SELECT 1 FROM K WHERE K.k = A.n)",
            "the right side of a negation",
        ),
        ("SELECT k, COUNT(*) AS n FROM S GROUP BY k HAVING COUNT(*) > 2", "over HAVING"),
        ("SELECT COUNT(*) * 2 AS n FROM S", "an expression over an aggregate"),
        ("SELECT COUNT(*) AS n FROM K", "a keyed stream"),
        ("SELECT COUNT(*) AS n FROM S [Rows 5]", "a window of ROWS: if a row is dropped, another row"),
        ("SELECT k, COUNT(*) AS n FROM HOP(TABLE S, DESCRIPTOR(TS), 5, 10) GROUP BY k", "windows that overlap"),
        ("SELECT k, COUNT(*) AS n FROM S GROUP BY k ORDER BY k LIMIT 3", "ORDER BY … LIMIT"),
    ],
)
def test_queries_without_an_error_bound_are_refused(query: str, message: str) -> None:
    session = LocalSession()
    session.execute(SOURCES)
    with pytest.raises(UserError, match=message):
        session.execute(
            f"CREATE QUERY q {ALLOWED.format(columns='true')} AS {query.replace('SELECT', 'SELECT STREAMED', 1)}"
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE QUERY q WITH (max_error = 2) AS", "between 0 and 1"),
        ("CREATE QUERY q WITH (deadline = '2 s') AS", "DEADLINE needs MAX_ERROR"),
        ("CREATE QUERY q WITH (max_error = 0.1, deadline = 'soon') AS", "invalid duration in DEADLINE"),
        ("CREATE STREAMED VIEW q WITH (max_error = 0.1) AS", "MAX_ERROR needs a query"),
        ("CREATE QUERY q WITH (shed_where = 'v < 3') AS", "SHED_WHERE needs MAX_ERROR"),
        (
            "CREATE QUERY q WITH (max_error = 0.1, shed_where = 'w < 3') AS",
            '"w < 3": .*column "w" not found',
        ),
        ("CREATE QUERY q WITH (max_error = 0.1, shed_where = 'v + 1') AS", 'SHED_WHERE "v . 1" is not a condition'),
        ("CREATE QUERY q WITH (max_error = 0.1, shed_where = 'v <') AS", 'SHED_WHERE "v <": not an expression'),
    ],
)
def test_options_that_mean_nothing_are_refused(text: str, message: str) -> None:
    session = LocalSession()
    session.execute(SOURCES)
    with pytest.raises(UserError, match=message):
        session.execute(f"{text} SELECT STREAMED COUNT(*) AS n FROM S")


# --- under rates

SQL = """REGISTER SOURCE T (k VARCHAR, v INT) FROM t; CREATE STREAM A OVER T KEY NULL;
CREATE QUERY Counts WITH (max_error = 0.5, error_columns = true) AS
    SELECT STREAMED k, COUNT(*) AS n, SUM(v) AS s, AVG(v) AS a FROM A GROUP BY k;
CREATE QUERY Windows WITH (max_error = 0.5) AS SELECT STREAMED COUNT(*) AS n FROM A [Range 3];
CREATE QUERY Low WITH (max_error = 0.5, error_columns = true, shed_where = 'v < 2') AS
    SELECT STREAMED k, SUM(v) AS s, COUNT(*) AS n FROM A GROUP BY k;
CREATE QUERY Exact AS SELECT STREAMED k, COUNT(*) AS n FROM A GROUP BY k"""
RATES = st.sampled_from([1.0, 0.75, 0.5, 0.25])
RECORD = st.tuples(st.sampled_from("abc"), st.integers(1, 3), st.integers(0, 12), st.sampled_from([None, None, "bad"]))


def shed_run(logs, targets, limits, crash_at=None, rates=None, sheds=None) -> tuple[World, dict[str, str]]:
    messages = {p: [message(at, record) for at, record in enumerate(log)] for p, log in enumerate(logs)}
    catalog, _ = apply_all(SQL, environment=FakeEnvironment({"t": dict.fromkeys(messages, 0)}))
    world = World({"t": messages}, sheds=copy.deepcopy(sheds) if sheds else {})
    ids = {query.name: query.id for query in catalog.queries()}
    wanted = None
    if rates is not None:
        wanted = [{ids["Counts"]: rate, ids["Windows"]: 1.25 - rate, ids["Low"]: rate} for rate in rates]
    return run(world, catalog, targets, limits, crash_at, rates=wanted), ids


@settings(max_examples=3)
@given(
    st.lists(st.lists(RECORD, min_size=8, max_size=24), min_size=1, max_size=2),
    st.integers(1, 3),
    st.lists(st.integers(6, 20), min_size=1, max_size=4),
    st.none() | st.integers(0, 5),
    st.lists(RATES, min_size=1, max_size=5),
)
def test_results_are_a_function_of_the_logs_and_of_the_logged_rates(logs, targets, limits, crash_at, rates) -> None:
    """Rates change with every epoch, and are decided again after a crash. The results equal those of one epoch that
    uses only the logged rates."""
    logs = [sorted(log, key=lambda record: record[2]) for log in logs]
    cut, ids = shed_run(logs, targets, limits, crash_at, rates)
    whole, _ = shed_run(logs, 1, [1000], sheds=cut.sheds)
    assert cut.written == whole.written
    exact, _ = shed_run(logs, 1, [1000])
    assert cut.results.get(ids["Exact"]) == exact.results.get(ids["Exact"])


@pytest.mark.parametrize("crash_at", [1, 3])
def test_after_a_crash_no_rate_is_decided_for_what_may_have_been_published(crash_at: int) -> None:
    """The wanted rates change again after the crash, while the records before it are read again."""
    logs = [[("abc"[at % 3], at % 3 + 1, at // 2, None) for at in range(40)] for _ in range(2)]
    cut, _ = shed_run(logs, 1, [14], crash_at, [1.0, 0.5, 0.25, 0.75])
    whole, _ = shed_run(logs, 1, [1000], sheds=cut.sheds)
    assert cut.results == whole.results


def test_estimates_weight_kept_records_by_the_inverse_rate() -> None:
    """The sums are over the records below the frontier. The last instant is 29."""
    logs = [[("ab"[at % 2], at % 5, at // 10, None) for at in range(partition, 300)] for partition in range(2)]
    plan = {0: [(100, 0.5), (200, 0.25)], 1: [(50, 0.5)]}
    (_, ids) = shed_run(logs, 1, [1000])
    sheds = {ids["Counts"]: {("o1", partition): rates for partition, rates in plan.items()}}
    world, _ = shed_run(logs, 2, [70], sheds=sheds)
    estimates: dict[str, list[float]] = defaultdict(lambda: [0.0] * 3)
    for partition, log in enumerate(logs):
        for offset, (k, v, _, _) in enumerate(record for record in log if record[2] < 29):
            rate = ([1.0] + [rate for start, rate in plan[partition] if start <= offset])[-1]
            if chance(place(0, partition, offset), SHEDDING) < rate:
                for at, value in enumerate((1, v, (1 / rate) * (1 / rate - 1))):
                    estimates[k][at] += value / rate if at < 2 else value
    last = {json.loads(key)["k"]: json.loads(value) for key, value, _ in world.results[ids["Counts"]]}
    assert {k: (row["n"], row["s"]) for k, row in last.items()} == {
        k: (round(count), round(total)) for k, (count, total, _) in estimates.items()
    }
    for k, (count, total, variance) in estimates.items():
        assert last[k]["a"] == pytest.approx(total / count)
        assert last[k]["_error"] >= 1.96 * variance**0.5 / round(count) * (1 - 1e-9)
        assert last[k]["_confidence"] == 0.95


def test_only_records_of_which_the_condition_is_true_are_left_out() -> None:
    """A quarter of the records with v < 2 is kept. The others are summed exactly and add nothing to the error."""
    log = [("ab"[at % 2], at % 5 if at % 7 else None, at // 10, None) for at in range(300)]
    _, ids = shed_run([log], 1, [1000])
    world, _ = shed_run([log], 2, [70], sheds={ids["Low"]: {("o1", 0): [(0, 0.25)]}})
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0] * 4)
    for offset, (k, v, ts, _) in enumerate(log):
        low = v is not None and v < 2
        if ts < 29 and (not low or chance(offset, SHEDDING) < 0.25):
            share = 4.0 if low else 1.0
            for at, value in enumerate((v or 0, 1, (v or 0) ** 2 * (share - 1), share - 1)):
                sums[k][at] += value * share
    last = {json.loads(key)["k"]: json.loads(value) for key, value, _ in world.results[ids["Low"]]}
    assert {k: (row["s"], row["n"]) for k, row in last.items()} == {k: (s, n) for k, (s, n, _, _) in sums.items()}
    for k, (total, count, squares, ones) in sums.items():
        assert last[k]["_error"] == pytest.approx(1.96 * max(squares**0.5 / total, ones**0.5 / count))


def test_error_depends_on_the_rows_that_may_be_shed() -> None:
    """Ten rows with value 100 and 90 rows with value 1; only the latter may be shed."""
    frame = pl.DataFrame({"v": [100] * 10 + [1] * 90, "low": [None] * 10 + [True] * 90})
    placed = frame.with_columns(__from=pl.int_range(100), __to=9, __weight=1, __order=pl.int_range(100))
    seen = Shed("q", (), (Value("v"), Value("v", mean=True)), "low").statistics(Delta(placed), 55)
    assert seen is not None and (seen.rows, seen.kept, seen.part) == (100, 55, 0.9)
    (spread,) = seen.groups.values()
    mean = (10 * 100 + 90) / 100
    assert (spread.rows, spread.part) == (100.0, 0.9)
    assert spread.sums == ((1090.0, 90.0), (1090.0, pytest.approx(90 * (mean - 1) ** 2)))
    observed = ObservedInput().after(0.0, 0, seen)
    assert observed.part == 0.9
    assert observed.spread(window=None) == pytest.approx(2.33**2 * 90 * (mean - 1) ** 2 / 1090**2)


def test_repair_reads_shed_records_and_corrects_published_results() -> None:
    """A quarter of the records is kept from the start. The key z is only in the first half of the log."""
    log = [("abz"[at % 3] if at < 150 else "ab"[at % 2], at % 5, at // 5, None) for at in range(300)]
    messages = [message(at, record) for at, record in enumerate(log)]
    catalog, _ = apply_all(SQL, environment=FakeEnvironment({"t": {0: 0}}))
    shed = next(query.id for query in catalog.queries() if query.name == "Counts")
    world = World({"t": {0: messages[:200]}}, sheds={shed: {("o1", 0): [(0, 0.25)]}})
    run(world, catalog, 2, [40])
    before = {key: json.loads(value) for key, value, _ in world.results[shed]}
    (statement,) = parse("REPAIR QUERY Counts")
    halt = with_halted(catalog, halt_with_readers(statement, catalog).queries)
    repaired, result = apply(statement, halt, Reached(world))
    world.logs["t"][0] = messages
    run(world, repaired, 2, [70])
    new = repaired.find("Counts").id
    after = before | {key: json.loads(value) for key, value, _ in world.results[new]}
    known = [(k, v) for k, v, ts, _ in log if ts < 59]
    exact = {k: (sum(key == k for key, _ in known), sum(v for key, v in known if key == k), 0.0, 1.0) for k in "abz"}
    estimates = {row["k"]: (row["n"], row["s"], row["_error"], row["_confidence"]) for row in after.values()}
    assert {k: row["n"] for row in before.values() for k in [row["k"]]} != {k: row[0] for k, row in exact.items()}
    assert result.notices == ("Counts: replaced from instant 39 on",)
    assert estimates == exact


def test_only_queries_that_may_shed_can_be_repaired() -> None:
    catalog, _ = apply_all(SQL, environment=FakeEnvironment({"t": {0: 0}}))
    with pytest.raises(UserError, match='"Exact" has nothing to repair'):
        apply_all("REPAIR QUERY Exact", catalog)


def test_the_exact_sum_is_within_the_error_in_about_95_of_100_samples() -> None:
    """100 sources with the same 2 000 values. Their order numbers differ; therefore their samples differ."""
    values = np.random.default_rng(5).gamma(2.0, 10.0, 2_000).round(3)
    shed, hits, estimates = Shed("q").under(settings_of(0, [(0, 0.3)])), 0, []
    frame = pl.DataFrame({"v": values, "__from": 0, "__to": 9, "__weight": 1, "__order": np.arange(2_000)})
    for number in range(100):
        placed = Delta(frame.with_columns(pl.col("__order") + (number << 55)))
        kept = shed.step(placed, (), Move(0, 9)).delta.frame
        share, v = kept[SHARE].to_numpy(), kept["v"].to_numpy()
        estimates.append((v * share).sum())
        hits += abs(estimates[-1] - values.sum()) <= 1.96 * ((v * v * share * (share - 1)).sum()) ** 0.5
    assert 88 <= hits <= 100
    spread = (values * values).sum() * (1 / 0.3 - 1)
    assert abs(np.mean(estimates) - values.sum()) < 4 * (spread / 100) ** 0.5
