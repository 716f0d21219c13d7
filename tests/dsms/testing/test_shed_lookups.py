"""Queries over lookups (joins of a stream with a relation by its key) whose input may be shed: exact if nothing is
shed, else Horvitz-Thompson estimates over the joined rows, computed here by DuckDB and splitmix64 in Python's
integers."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from functools import cache

import duckdb
import polars as pl
import pytest
from confluent_kafka import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.model import logical
from dsms.planner.optimizer.shedding import shed_of
from dsms.planner.physical.fragment_plan import plan_fragment
from dsms.shedding.observed_input import ObservedInput
from dsms.testing import LocalSession
from operators.core.delta import Delta
from operators.core.errors import UserError
from operators.streams.shed import Shed
from tests.support.fake_environment import FakeEnvironment, apply_all
from tests.support.pure_executor import World, run
from tests.support.splitmix import SHEDDING, chance, place

SOURCES = """
REGISTER SOURCE T (k INT, c INT, v BIGINT, f DOUBLE, d DECIMAL(9, 2)) FROM t;
REGISTER SOURCE U (k INT, r VARCHAR, x INT) FROM u;
REGISTER SOURCE W (r VARCHAR, z INT) FROM w;
CREATE STREAM S OVER T KEY NULL; CREATE STREAM K OVER U KEY k; CREATE STREAM L OVER W KEY r;
CREATE STREAM N OVER U KEY NULL; CREATE STREAM P OVER U KEY k, x;
"""
ALLOWED = "WITH (max_error = 0.05, deadline = '2 s', error_columns = {columns})"
QUERIES = [
    "r, COUNT(*) AS n, SUM(v) AS t, AVG(f) AS a, SUM(d) AS d FROM S JOIN K ON S.k = K.k GROUP BY r",
    "r, COUNT(*) AS n, COUNT(K.x) AS x FROM S LEFT JOIN K ON S.k = K.k GROUP BY r",
    "r, COUNT(*) AS n FROM K RIGHT JOIN S ON S.k = K.k GROUP BY r",
    "COUNT(*) AS n, SUM(d) AS d FROM K, S [Range 5] WHERE S.k = K.k AND K.x > 2 AND S.v > 1",
    "z, COUNT(*) FILTER (WHERE x > 2) AS n, SUM(v) AS t FROM S JOIN K ON S.k = K.k JOIN L ON K.r = L.r GROUP BY z",
    "r, SUM(v * GREATEST(x, 0)) AS t, SUM(d * ABS(x)) AS d FROM S JOIN K ON S.k = K.k GROUP BY r",
    "S.k, SUM(v * x) AS t, AVG(x) AS a FROM S JOIN K ON S.k = K.k GROUP BY S.k",
    "window_end, r, AVG(v) AS a FROM TUMBLE(TABLE S, DESCRIPTOR(TS), 10) B JOIN K ON B.k = K.k GROUP BY window_end, r",
    "window_end, COUNT(*) AS n FROM HOP(TABLE S, DESCRIPTOR(TS), 5, 10) B JOIN K ON B.k = K.k GROUP BY window_end",
    "n, COUNT(*) AS m FROM S JOIN (SELECT k, COUNT(*) AS n FROM N GROUP BY k) G ON S.k = G.k GROUP BY n",
    "p.r, COUNT(*) AS n FROM S ASOF LEFT JOIN P p ON S.k = p.k AND S.c >= p.x GROUP BY p.r",
    "S.c, COUNT(*) AS n FROM S WHERE NOT EXISTS (SELECT 1 FROM K WHERE K.k = S.k AND K.x < S.v) GROUP BY S.c",
    "r, COUNT(*) AS n FROM S JOIN K ON S.k = K.k WHERE r IN (SELECT r FROM N) GROUP BY r",
    "a.r AS a, b.r AS b, COUNT(*) AS n FROM S JOIN K a ON S.k = a.k JOIN K b ON S.c = b.k GROUP BY a.r, b.r",
]


def rows(begin: int, end: int) -> list[dict[str, object]]:
    return [
        {"k": at % 6, "c": at % 5, "v": at * 7 % 11 if at % 5 else None, "f": at * 0.25, "d": "1.25", "ts": at}
        for at in range(begin, end)
    ]


@pytest.mark.parametrize(("query", "columns"), [(QUERIES[0], "false"), *((query, "true") for query in QUERIES)])
def test_results_without_shedding_equal_the_exact_query(query: str, columns: str) -> None:
    """The relations change while the stream is read: rows are replaced and deleted."""
    session = LocalSession(2, 17)
    session.execute(SOURCES + f"CREATE QUERY exact AS SELECT STREAMED {query}")
    session.execute(f"CREATE QUERY shed {ALLOWED.format(columns=columns)} AS SELECT STREAMED {query}")
    for begin in (0, 20):
        session.push("U", [{"k": k, "r": "ab"[(k + begin) % 2], "x": k, "ts": begin + k} for k in range(5)])
        session.push("W", [{"r": r, "z": begin + at % 1, "ts": begin} for at, r in enumerate("ab")])
        session.push("T", rows(begin, begin + 20))
    session.advance(60)
    changes = session.changes("shed")
    if columns == "true":
        whole = [row for _, row, _ in changes if "_error" in row]
        assert len(whole) > 0
        assert all((row.pop("_error"), row.pop("_confidence")) == (0.0, 1.0) for row in whole)
    assert changes == session.changes("exact") != []


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("COUNT(*) AS n FROM S, N WHERE S.k = N.k", "over a join: a record may join several rows"),
        ("COUNT(*) AS n FROM S JOIN K ON S.k > K.k", "over a join: a record may join several rows"),
        ("COUNT(*) AS n FROM S JOIN P ON S.k = P.k", "over a join: .*join a relation on all columns of its key"),
        ("COUNT(*) AS n FROM S JOIN K ON S.v = K.k", "compared with columns of the same type"),
        ("COUNT(*) AS n FROM S FULL JOIN K ON S.k = K.k", "over a join"),
        ("COUNT(*) AS n FROM K LEFT JOIN S ON S.k = K.k", "over a join"),
        ("COUNT(*) AS n FROM K JOIN P ON P.k = K.k", "a keyed stream"),
        ("r, SUM(x) AS t FROM S JOIN K ON S.k = K.k GROUP BY r", "SUM over columns of a join: values of both signs"),
        ("r, AVG(v * x) AS t FROM S JOIN K ON S.k = K.k GROUP BY r", "AVG over .*GREATEST"),
        ("r, SUM(v + x) AS t FROM S JOIN K ON S.k = K.k GROUP BY r", "distributed is not known before the join"),
        ("r, MAX(v) AS t FROM S JOIN K ON S.k = K.k GROUP BY r", "MAX: a single row"),
        (
            "window_end, COUNT(*) AS n FROM TUMBLE(TABLE (SELECT S.TS AS at, r FROM S JOIN K ON S.k = K.k) B,"
            " DESCRIPTOR(at), 10) GROUP BY window_end",
            "a window or a sample of a join",
        ),
    ],
)
def test_joins_without_an_error_bound_are_refused(query: str, message: str) -> None:
    session = LocalSession()
    session.execute(SOURCES)
    with pytest.raises(UserError, match=message):
        session.execute(f"CREATE QUERY q {ALLOWED.format(columns='true')} AS SELECT STREAMED {query}")


def test_a_mean_of_a_lookup_cannot_be_shed_by_a_condition() -> None:
    session = LocalSession()
    session.execute(SOURCES)
    options = "WITH (max_error = 0.1, shed_where = 'v < 2')"
    with pytest.raises(UserError, match="AVG over columns of a join: how far a record is from the mean"):
        session.execute(
            f"CREATE QUERY q {options} AS SELECT STREAMED r, AVG(v) AS a FROM S JOIN K ON S.k = K.k GROUP BY r"
        )


# --- what is measured


@pytest.mark.parametrize(
    ("query", "keys", "merged"),
    [
        ("r, COUNT(*) AS n FROM S JOIN K ON S.k = K.k GROUP BY r", ("k",), True),
        ("S.k, r, COUNT(*) AS n FROM S JOIN K ON S.k = K.k GROUP BY S.k, r", ("k",), False),
        ("S.c, COUNT(*) AS n FROM S LEFT JOIN K ON S.k = K.k GROUP BY S.c", ("c",), False),
        ("S.c, COUNT(*) AS n FROM S JOIN K ON S.k = K.k GROUP BY S.c", ("c", "k"), True),
        ("S.c, SUM(v * ABS(x)) AS t FROM S LEFT JOIN K ON S.k = K.k GROUP BY S.c", ("c", "k"), True),
        ("S.c, COUNT(x) AS n FROM S LEFT JOIN K ON S.k = K.k GROUP BY S.c", ("c", "k"), True),
        ("r, COUNT(*) FILTER (WHERE S.v > x) AS n FROM S LEFT JOIN K ON S.k = K.k GROUP BY r", ("k", "v"), True),
        ("z, COUNT(*) AS n FROM S JOIN K ON S.k = K.k JOIN L ON K.r = L.r GROUP BY z", ("k",), True),
        ("S.c, COUNT(*) AS n FROM S WHERE S.k NOT IN (SELECT k FROM N) GROUP BY S.c", ("c", "k"), True),
        ("p.r, COUNT(*) AS n FROM S ASOF JOIN P p ON S.k = p.k AND S.c >= p.x GROUP BY p.r", ("k", "c"), True),
    ],
)
def test_groups_are_measured_by_the_columns_that_determine_them(query: str, keys: tuple, merged: bool) -> None:
    shed = planned_shed(SOURCES, query)
    assert (shed.keys, shed.merged) == (keys, merged)


@cache
def planned_shed(sources: str, query: str) -> logical.Shed:
    text = f"{sources} CREATE QUERY q {ALLOWED.format(columns='true')} AS SELECT STREAMED {query}"
    catalog, _ = apply_all(text, environment=FakeEnvironment({topic: {0: 0} for topic in "tuw"}))
    (planned,) = plan_fragment(catalog, 1).queries.values()
    shed = shed_of(planned.node)
    assert shed is not None
    return shed


NUMBERS = st.tuples(st.integers(0, 4), st.integers(0, 1), st.integers(1, 9))


@given(
    st.lists(NUMBERS, min_size=20, max_size=60),
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(-3, 9)), min_size=5, max_size=5),
)
def test_the_measured_spread_bounds_that_of_each_group_of_the_result(records, relation) -> None:
    """Whatever the relation is: the squared relative error of a total at rate 1/2 is Σ x² / (Σ x)², that of a mean
    Σ (x - m)² / (Σ x)², here by DuckDB over the joined rows."""
    query = (
        "c, r, COUNT(*) AS n, SUM(v) AS t, AVG(v) AS a, SUM(v * GREATEST(x, 0)) AS p"
        " FROM S JOIN K ON S.k = K.k WHERE x < 9 GROUP BY c, r"
    )
    shed = planned_shed(SOURCES, query)
    frame = pl.DataFrame(records, schema=["k", "c", "v"], orient="row")
    placed = frame.with_columns(
        pl.col("v").alias("S.v"), __from=0, __to=9, __weight=1, __order=pl.int_range(len(frame))
    )
    seen = Shed("q", shed.keys, shed.values).statistics(Delta(placed), len(frame))
    assert seen is not None
    looked_up = pl.DataFrame([(k, r, x) for k, (r, x) in enumerate(relation)], schema=["k", "r", "x"], orient="row")
    assert len(looked_up) == 5
    values = "v::DOUBLE AS v, v * greatest(x, 0)::DOUBLE AS p"
    joined = f"SELECT c, r, {values} FROM frame JOIN looked_up USING (k) WHERE x < 9"
    ((worst,),) = duckdb.sql(
        f"""SELECT max(greatest(1 / n, q / (t * t), d / (t * t), o / (u * u))) FROM (
            SELECT count(*) AS n, sum(v * v) AS q, nullif(sum(v), 0) AS t, var_pop(v) * count(*) AS d,
                sum(p * p) AS o, nullif(sum(p), 0) AS u FROM ({joined}) GROUP BY c, r)"""
    ).fetchall()
    spread = ObservedInput().after(0.0, 0, seen).spread(None, merged=shed.merged)
    assert worst is None or 2.33**2 * worst <= spread * (1 + 1e-9)


def test_sums_of_both_signs_allow_no_shedding_if_they_may_cancel() -> None:
    shed = Shed("q", ("k",), planned_shed(SOURCES, "r, SUM(v) AS t FROM S JOIN K ON S.k = K.k GROUP BY r").values)
    frame = pl.DataFrame({"k": [1, 2], "v": [50, -50], "__from": 0, "__to": 9, "__weight": 1, "__order": [0, 1]})
    seen = shed.statistics(Delta(frame), 2)
    assert seen is not None
    observed = ObservedInput().after(0.0, 0, seen)
    assert observed.spread(None) < observed.spread(None, merged=True) == float("inf")


# --- under rates

SQL = """REGISTER SOURCE T (k INT, v INT) FROM t; REGISTER SOURCE U (k INT, r VARCHAR, x INT) FROM u;
CREATE STREAM S OVER T KEY NULL; CREATE STREAM K OVER U KEY k;
CREATE QUERY Inside WITH (max_error = 0.5, error_columns = true) AS SELECT STREAMED r, COUNT(*) AS n, SUM(v) AS s,
    SUM(v * GREATEST(x, 0)) AS p, AVG(v) AS a FROM S JOIN K ON S.k = K.k WHERE K.x < 7 GROUP BY r;
CREATE QUERY Outside WITH (max_error = 0.5, shed_where = 'v < 4') AS
    SELECT STREAMED r, COUNT(*) AS n, SUM(v) AS s FROM S LEFT JOIN K ON S.k = K.k GROUP BY r;
CREATE QUERY Missing WITH (max_error = 0.5) AS SELECT STREAMED k AS r, COUNT(*) AS n, SUM(v) AS s FROM S
    WHERE NOT EXISTS (SELECT 1 FROM K WHERE K.k = S.k AND K.x < 7) GROUP BY k;
CREATE QUERY Itself WITH (max_error = 0.5) AS SELECT STREAMED m AS r, COUNT(*) AS n, SUM(v) AS s
    FROM (SELECT k, MAX(v) AS m FROM S GROUP BY k) G JOIN S ON G.k = S.k GROUP BY m;
CREATE QUERY Exact AS SELECT STREAMED r, COUNT(*) AS n FROM S JOIN K ON S.k = K.k GROUP BY r"""
#: The same joins, of the records with their shares s.
JOINED = {
    "Inside": "SELECT r, v, s, x FROM stream JOIN relation USING (k) WHERE x < 7",
    "Outside": "SELECT r, v, s, x FROM stream LEFT JOIN relation USING (k)",
    "Missing": "SELECT k AS r, v, s, 0 AS x FROM stream ANTI JOIN (SELECT k FROM relation WHERE x < 7) USING (k)",
    "Itself": "SELECT m AS r, v, s, 0 AS x FROM stream JOIN (SELECT k, max(v) AS m FROM whole GROUP BY k) USING (k)",
}
END = 100
RATES = st.sampled_from([1.0, 0.75, 0.5, 0.25])
RECORD = st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 12))
CHANGE = st.tuples(st.integers(0, 3), st.sampled_from("ab"), st.integers(-2, 9), st.integers(0, 12), st.booleans())
Rates = Mapping[tuple[str, int], Sequence[tuple[int, float]]]


def message(topic: str, offset: int, ts: int, body: Mapping[str, object], deleted: bool = False) -> Message:
    headers = [("dsms-op", b"-")] if deleted else []
    value = json.dumps(body).encode()
    return Message(topic=topic, partition=0, offset=offset, key=None, value=value, headers=headers, timestamp=(1, ts))


def logs_of(logs: Sequence[Sequence[tuple]], changes: Sequence[tuple]) -> dict[str, dict[int, list[Message]]]:
    """The logs of the stream's partitions and of the relation. The last record of each is at END."""
    streams = {
        at: [message("t", offset, ts, {"k": k, "v": v}) for offset, (k, v, ts) in enumerate([*log, (0, 0, END)])]
        for at, log in enumerate(logs)
    }
    relation = [
        message("u", offset, ts, {"k": k, "r": r, "x": x}, deleted)
        for offset, (k, r, x, ts, deleted) in enumerate([*changes, (0, "a", 0, END, False)])
    ]
    return {"t": streams, "u": {0: relation}}


def shed_run(logs, targets, limits, crash_at=None, rates=None, sheds=None) -> tuple[World, dict[str, str]]:
    """Runs the queries over the logs of the stream and that of the relation."""
    topics = logs_of(*logs)
    environment = FakeEnvironment({topic: dict.fromkeys(partitions, 0) for topic, partitions in topics.items()})
    catalog, _ = apply_all(SQL, environment=environment)
    ids = {named.name: named.id for named in (*catalog.queries(), *catalog.sources())}
    wanted = None
    if rates is not None:
        wanted = [{ids[name]: 1.25 - rate if name == "Outside" else rate for name in JOINED} for rate in rates]
    world = World(topics, sheds=copy.deepcopy(sheds) if sheds else {})
    return run(world, catalog, targets, limits, crash_at, rates=wanted), ids


def estimates(logs, changes, rates: Rates, source: str, query: str) -> list[tuple]:
    """The estimates over the joined rows, and Σ x² s (s - 1) of each total, by DuckDB."""
    kept = []
    for partition, log in enumerate(logs):
        for offset, (k, v, _) in enumerate(log):
            rate = ([1.0] + [rate for start, rate in rates.get((source, partition), ()) if start <= offset])[-1]
            rate = 1.0 if query == "Outside" and v >= 4 else rate
            if chance(place(0, partition, offset), SHEDDING) < rate:
                kept.append((k, v, 1 / rate))
    last: dict[int, tuple[str, int]] = {}
    for k, r, x, _, deleted in changes:
        last.pop(k, None)
        last |= {} if deleted else {k: (r, x)}
    stream = pl.DataFrame(kept, schema={"k": pl.Int64, "v": pl.Int64, "s": pl.Float64}, orient="row")
    relation = pl.DataFrame(
        [(k, *row) for k, row in last.items()], schema={"k": pl.Int64, "r": pl.String, "x": pl.Int64}, orient="row"
    )
    whole = pl.DataFrame([record[:2] for log in logs for record in log], schema=["k", "v"], orient="row")
    assert len(stream.columns) == len(relation.columns) == len(whole.columns) + 1
    return duckdb.sql(
        f"""SELECT r, sum(s), sum(v * s), sum(v * greatest(x, 0) * s), sum(v * s) / sum(s),
            sum(s * (s - 1)), sum(v * v * s * (s - 1)) FROM ({JOINED[query]}) GROUP BY r ORDER BY r NULLS LAST"""
    ).fetchall()


def last_rows(world: World, query: str) -> dict[str | None, dict]:
    last: dict[str | None, dict] = {}
    for key, value, headers in world.results.get(query, ()):
        name = json.loads(key)["r"]
        if value is None or dict(headers or ()).get("dsms-op") == b"-":
            last.pop(name, None)
        else:
            last[name] = json.loads(value)
    return last


@settings(max_examples=6)
@given(
    st.lists(st.lists(RECORD, min_size=8, max_size=24), min_size=1, max_size=2),
    st.lists(CHANGE, max_size=14),
    st.integers(1, 3),
    st.lists(st.integers(6, 20), min_size=1, max_size=4),
    st.none() | st.integers(0, 5),
    st.lists(RATES, min_size=1, max_size=5),
)
def test_results_are_estimates_over_the_joined_rows(logs, changes, targets, limits, crash_at, rates) -> None:
    """Rates change with every epoch, and the relation changes while the stream is read. Results equal those of one
    epoch with the logged rates, and in the end the estimates over the last rows of the relation."""
    logs = [sorted(log, key=lambda record: record[2]) for log in logs]
    changes = sorted(changes, key=lambda change: change[3])
    cut, ids = shed_run((logs, changes), targets, limits, crash_at, rates)
    whole, _ = shed_run((logs, changes), 1, [1000], sheds=cut.sheds)
    assert cut.written == whole.written
    exact, _ = shed_run((logs, changes), 1, [1000])
    assert cut.results.get(ids["Exact"]) == exact.results.get(ids["Exact"])
    assert {source for rates in cut.sheds.values() for source, _ in rates} <= {ids["T"]}
    check_estimates(cut, ids, logs, changes)


def check_estimates(world: World, ids, logs, changes) -> None:
    found = {name: last_rows(world, ids[name]) for name in JOINED}
    known = {name: estimates(logs, changes, world.sheds.get(ids[name], {}), ids["T"], query=name) for name in JOINED}
    inside = found["Inside"]
    assert sorted(inside) == [r for r, *_ in known["Inside"]]
    for r, n, s, p, a, ones, squares in known["Inside"]:
        row = inside[r]
        assert (row["n"], row["s"], row["p"]) == pytest.approx((n, s, p), abs=0.51)
        assert row["a"] == pytest.approx(a)
        if row["_error"] is not None:
            least = max(1.96 * ones**0.5 / row["n"], 1.96 * squares**0.5 / row["s"] if row["s"] else 0.0)
            assert row["_error"] >= least * (1 - 1e-9)
    for name in ("Outside", "Missing", "Itself"):
        assert {r: (row["n"], row["s"]) for r, row in found[name].items()} == {
            r: (pytest.approx(n, abs=0.51), pytest.approx(s, abs=0.51)) for r, n, s, *_ in known[name]
        }


def test_results_are_within_the_error_in_about_95_of_100_samples() -> None:
    """100 groups of the relation, with the same 300 values each. A quarter of the records is kept."""
    names = [f"r{at:02}" for at in range(100)]
    log = [(at % 100, (at // 100) % 10, at // 10_000) for at in range(30_000)]
    changes = [(k, name, 1 + k % 6, 0, False) for k, name in enumerate(names)]
    _, ids = shed_run(([log[:1]], changes), 1, [1000])
    sheds = {ids["Inside"]: {(ids["T"], 0): [(0, 0.25)]}}
    world, _ = shed_run(([log], changes), 2, [20_000], sheds=sheds)
    found = last_rows(world, ids["Inside"])
    total = sum(v for k, v, _ in log if k == 0)
    hits = [
        sum(abs(row[name] - exact) <= row["_error"] * row[name] for row in found.values())
        for name, exact in (("n", 300), ("s", total), ("a", total / 300))
    ]
    assert len(found) == 100
    assert all(90 <= each <= 100 for each in hits), hits
