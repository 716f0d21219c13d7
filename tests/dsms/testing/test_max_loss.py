"""MAX_LOSS: the result of a monotone query over the records that are kept. DuckDB computes it over the records that the
log of rates keeps, which Python's integers decide; at every instant it is a part of the exact result."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from zlib import crc32

import duckdb
import pytest
from confluent_kafka import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.model import logical
from dsms.model.catalog import Catalog
from dsms.model.properties import walk
from dsms.registration.replacement import with_halted
from dsms.sql.binder.from_clause.catalog_relations import plan_of
from dsms.statements.ddl.replace_query import halt_with_readers
from dsms.statements.registry import apply, parse
from dsms.testing import LocalSession
from operators.core.errors import UserError
from tests.dsms.runtime.test_life_epochs import Reached
from tests.support.fake_environment import FakeEnvironment, apply_all
from tests.support.pure_executor import World, run
from tests.support.splitmix import SHEDDING, chance, place

SOURCES = """REGISTER SOURCE T (k INT, v INT) FROM t; REGISTER SOURCE U (k INT, w INT) FROM u;
CREATE STREAM S OVER T KEY NULL; CREATE STREAM M OVER U KEY NULL; CREATE STREAM K OVER T KEY k;
"""


@dataclass(frozen=True)
class Case:
    """A query; the streams that its text names, each with the columns whose hash decides; and the query for DuckDB over
    a0, a1, …, the rows of these streams up to the instant, which is `now`."""

    sql: str
    reads: tuple[tuple[str, tuple[str, ...]], ...]
    duckdb: str


CASES = {
    "Chosen": Case("k, v FROM S WHERE v > 1", (("S", ()),), "SELECT k, v FROM a0 WHERE v > 1"),
    "Recent": Case("k, v FROM S [Range 3]", (("S", ()),), "SELECT k, v FROM a0 WHERE ts >= now - 3"),
    "Windows": Case(
        "window_end, k FROM HOP(TABLE S, DESCRIPTOR(TS), 2, 4)",
        (("S", ()),),
        "SELECT e, k FROM a0, range(0, 40, 2) w (e) WHERE e > ts AND e <= ts + 4",
    ),
    "Pairs": Case(
        "S.k, v, w FROM S [Range 4], M [Range 2] WHERE S.k = M.k AND v > 0",
        (("S", ("k",)), ("M", ("k",))),
        "SELECT a0.k, v, w FROM a0, a1 WHERE a0.k = a1.k AND v > 0 AND a0.ts >= now - 4 AND a1.ts >= now - 2",
    ),
    "Both": Case(
        "S.k, v FROM S JOIN M ON S.k = M.k AND v = w",
        (("S", ("k", "v")), ("M", ("k", "w"))),
        "SELECT a0.k, v FROM a0 JOIN a1 ON a0.k = a1.k AND v = w",
    ),
    "Less": Case(
        "S.k, w FROM S [Range 2], M [Range 2] WHERE v < w",
        (("S", ()), ("M", ())),
        "SELECT a0.k, w FROM a0, a1 WHERE v < w AND a0.ts >= now - 2 AND a1.ts >= now - 2",
    ),
    "Crossed": Case(
        "a.k, b.v FROM S [Range 5] a, S [Range 5] b WHERE a.k = b.v",
        (("S", ("k",)), ("S", ("v",))),
        "SELECT a0.k, a1.v FROM a0, a1 WHERE a0.k = a1.v AND a0.ts >= now - 5 AND a1.ts >= now - 5",
    ),
    "Three": Case(
        "a.v, w, b.v AS x FROM S [Range 3] a, M [Range 3], S [Range 3] b WHERE a.k = M.k AND M.k = b.k",
        (("S", ("k",)), ("M", ("k",)), ("S", ("k",))),
        "SELECT a0.v, w, a2.v FROM a0, a1, a2 WHERE a0.k = a1.k AND a1.k = a2.k"
        " AND a0.ts >= now - 3 AND a1.ts >= now - 3 AND a2.ts >= now - 3",
    ),
    "Different": Case("DISTINCT k FROM S [Range 3]", (("S", ()),), "SELECT DISTINCT k FROM a0 WHERE ts >= now - 3"),
    "United": Case(
        "k FROM S [Range 3] UNION SELECT k FROM M [Range 1]",
        (("S", ()), ("M", ())),
        "SELECT k FROM a0 WHERE ts >= now - 3 UNION SELECT k FROM a1 WHERE ts >= now - 1",
    ),
    "All": Case(
        "k FROM S UNION ALL SELECT k FROM M",
        (("S", ()), ("M", ())),
        "SELECT k FROM a0 UNION ALL SELECT k FROM a1",
    ),
    "Partners": Case(
        "k, v FROM S WHERE k IN (SELECT k FROM M [Range 3])",
        (("S", ("k",)), ("M", ("k",))),
        "SELECT k, v FROM a0 WHERE k IN (SELECT k FROM a1 WHERE ts >= now - 3)",
    ),
    "Common": Case(
        "k FROM S [Range 4] INTERSECT ALL SELECT k FROM M",
        (("S", ("k",)), ("M", ("k",))),
        "SELECT k FROM a0 WHERE ts >= now - 4 INTERSECT ALL SELECT k FROM a1",
    ),
    # A record is kept as a whole: neither its elements nor its windows decide.
    "Elements": Case(
        "S.k, x, w FROM S CROSS JOIN UNNEST(ARRAY[v, v + 1]) AS u(x), M WHERE M.k = x",
        (("S", ()), ("M", ())),
        "SELECT a0.k, x, w FROM (SELECT k, unnest([v, v + 1]) AS x FROM a0) a0, a1 WHERE a1.k = x",
    ),
    "Hops": Case(
        "x.v, y.w FROM HOP(TABLE S, DESCRIPTOR(TS), 1, 4) x JOIN HOP(TABLE M, DESCRIPTOR(TS), 1, 4) y"
        " ON x.k = y.k AND x.window_end = y.window_end",
        (("S", ("k",)), ("M", ("k",))),
        "SELECT v, w FROM a0 JOIN a1 ON a0.k = a1.k, range(0, 40) e (e)"
        " WHERE e > a0.ts AND e <= a0.ts + 4 AND e > a1.ts AND e <= a1.ts + 4",
    ),
}
OPTIONS = "WITH (max_loss = 0.9, deadline = '1 s')"
SQL = SOURCES + ";".join(f"CREATE QUERY {name} {OPTIONS} AS SELECT STREAMED {case.sql}" for name, case in CASES.items())
TOPICS = {"S": "t", "M": "u"}
LAST = 10
DATABASE = duckdb.connect()
RATES = st.sampled_from([1.0, 0.75, 0.5, 0.25])
#: A key or NULL, a value, and an instant.
RECORD = st.tuples(st.none() | st.integers(0, 4), st.integers(0, 3), st.integers(0, LAST))
LOG = st.lists(RECORD, max_size=14).map(lambda log: [*sorted(log, key=lambda record: record[2]), (0, 0, LAST + 20)])
Logs = Mapping[str, Sequence[Sequence[tuple[int | None, int, int]]]]
LOGS = st.fixed_dictionaries({topic: st.lists(LOG, min_size=1, max_size=2) for topic in "tu"})
#: By source id and partition: the first offset, and the rate from there on.
Rates = Mapping[tuple[str, int], Sequence[tuple[int, float]]]


@cache
def catalog_of(parts: tuple[int, int]) -> Catalog:
    topics = {topic: dict.fromkeys(range(count), 0) for topic, count in zip("tu", parts, strict=True)}
    return apply_all(SQL, environment=FakeEnvironment(topics))[0]


def catalog_for(logs: Logs) -> Catalog:
    return catalog_of((len(logs["t"]), len(logs["u"])))


def message(topic: str, partition: int, offset: int, record: tuple[int | None, int, int]) -> Message:
    k, v, ts = record
    body = json.dumps({"k": k, "v" if topic == "t" else "w": v}).encode()
    return Message(topic=topic, partition=partition, offset=offset, key=None, value=body, headers=[], timestamp=(1, ts))


def shed_run(logs: Logs, targets, limits, crash_at=None, rates=None, sheds=None) -> World:
    """Runs all queries; `rates` are the wanted rates of one epoch after the other, different for each query."""
    messages = {
        topic: {p: [message(topic, p, at, record) for at, record in enumerate(log)] for p, log in enumerate(parts)}
        for topic, parts in logs.items()
    }
    catalog = catalog_for(logs)
    wanted = None
    if rates is not None:
        ids = [catalog.find(name).id for name in CASES]
        wanted = [{id_: rates[(at + turn) % len(rates)] for turn, id_ in enumerate(ids)} for at in range(len(rates))]
    world = World(messages, sheds=copy.deepcopy(sheds) if sheds else {})
    return run(world, catalog, targets, limits, crash_at, rates=wanted)


def kept(catalog: Catalog, logs: Logs, stream: str, by: Sequence[str], rates: Rates) -> Iterator[tuple]:
    """The records of a stream that are kept, decided by splitmix64 of their position or of the CRC-32 of `by`."""
    source = catalog.find({"S": "T", "M": "U"}[stream])
    for partition, log in enumerate(logs[TOPICS[stream]]):
        for offset, record in enumerate(log):
            known = [(0, 1.0), *rates.get((source.id, partition), ())]
            rate = [rate for start, rate in known if start <= offset][-1]
            values = dict(zip(("k", "v" if stream == "S" else "w"), record, strict=False))
            text = json.dumps({str(at): values[name] for at, name in enumerate(by)}, separators=(",", ":"))
            number = crc32(text.encode()) if by else place(source.number, partition, offset)
            if chance(number, SHEDDING) < rate:
                yield record


def expected(case: Case, rows: Sequence[Sequence[tuple]], at: int) -> Counter[tuple]:
    """The result at an instant over these rows of the streams that the query names."""
    with closing(DATABASE.cursor()) as db:
        for number, (stream, _) in enumerate(case.reads):
            value = "v" if stream == "S" else "w"
            listed = [f"({'NULL' if k is None else k}, {v}, {ts})" for k, v, ts in rows[number] if ts <= at]
            some = f"VALUES {', '.join(listed)}" if listed else "SELECT 0, 0, 0 WHERE false"
            db.execute(f"CREATE OR REPLACE TABLE a{number} AS SELECT * FROM ({some}) r (k, {value}, ts)")
        return Counter(db.execute(case.duckdb.replace("now", str(at))).fetchall())


def found(world: World, query: str, at: int) -> Counter[tuple]:
    """The published result at an instant."""
    rows: Counter[tuple] = Counter()
    logs = [log for name, log in world.results.items() if name.split("/")[0] == query]
    for key, value, headers in (record for log in logs for record in log):
        known = dict(headers)
        if int(known["dsms-ts"]) <= at:
            row = tuple(json.loads(key if value is None else value).values())
            rows[row] += -1 if known.get("dsms-op") == b"-" else 1
    assert all(count >= 0 for count in rows.values())
    return +rows


def check(world: World, logs: Logs, sheds: Mapping[str, Rates]) -> None:
    catalog = catalog_for(logs)
    for name, case in CASES.items():
        query = catalog.find(name).id
        rates = sheds.get(query, {})
        parts = [list(kept(catalog, logs, stream, by, rates)) for stream, by in case.reads]
        whole = [list(kept(catalog, logs, stream, by, {})) for stream, by in case.reads]
        for at in (1, 4, 7, 12):
            result = found(world, query, at)
            assert result == expected(case, parts, at), (name, at)
            assert result <= expected(case, whole, at), (name, at)


@settings(max_examples=4)
@given(
    LOGS,
    st.integers(1, 3),
    st.lists(st.integers(4, 14), min_size=1, max_size=3),
    st.none() | st.integers(0, 4),
    st.lists(RATES, min_size=1, max_size=4),
)
def test_results_are_those_over_the_records_that_the_logged_rates_keep(logs, targets, limits, crash_at, rates) -> None:
    """Rates change with every epoch, and are decided again after a crash."""
    cut = shed_run(logs, targets, limits, crash_at, rates)
    check(cut, logs, cut.sheds)
    whole = shed_run(logs, 1, [1000], sheds=cut.sheds)
    assert cut.written == whole.written


@pytest.mark.parametrize("name", CASES)
def test_results_without_shedding_equal_the_exact_query(name: str) -> None:
    session = LocalSession(2, 17)
    session.execute(SOURCES + f"CREATE QUERY exact AS SELECT STREAMED {CASES[name].sql}")
    session.execute(f"CREATE QUERY shed {OPTIONS} AS SELECT STREAMED {CASES[name].sql}")
    for topic, value in (("T", "v"), ("U", "w")):
        session.push(topic, [{"k": at * 3 % 5, value: at * 7 % 4, "ts": at // 3} for at in range(60)])
    session.advance(60)
    assert session.changes("shed") == session.changes("exact") != []


def test_partners_of_a_join_are_kept_or_left_out_together() -> None:
    """Of 2 000 pairs, each with a key of its own, a quarter is kept; by positions it would be a sixteenth."""
    log = [(at, 1, 0) for at in range(2_000)]
    logs = {"t": [[*log, (0, 0, 20)]], "u": [[*reversed(log), (0, 0, 20)]]}
    catalog = catalog_for(logs)
    sources = [catalog.find(name).id for name in "TU"]
    rates = {(source, 0): [(0, 0.25)] for source in sources}
    world = shed_run(logs, 2, [900], sheds={catalog.find(name).id: rates for name in CASES})
    pairs = found(world, catalog.find("Pairs").id, 2)
    assert abs(pairs.total() - 500) < 5 * (2_000 * 0.25 * 0.75) ** 0.5
    keys = {k for k, _, _ in kept(catalog, logs, "S", ("k",), rates)} - {0}
    assert {k for k, _, _ in pairs} - {0} == keys


HOPS = "HOP(TABLE S, DESCRIPTOR(TS), 1, 4) a JOIN HOP(TABLE M, DESCRIPTOR(TS), 1, 4) b"


@pytest.mark.parametrize(
    ("query", "by"),
    [
        ("S.k FROM S CROSS JOIN UNNEST(ARRAY[v, v + 1]) AS u(x), M WHERE M.k = x", [(), ()]),
        ("S.k FROM S CROSS JOIN UNNEST(ARRAY[v, v + 1]) AS u(x), M WHERE M.k = S.k AND M.w = x", [("k",), ("k",)]),
        ("a.v FROM (SELECT v + x AS v FROM S CROSS JOIN UNNEST(ARRAY[v, 1]) AS u(x)) a, M WHERE M.k = a.v", [(), ()]),
        ("a.k FROM (SELECT v + k AS k FROM S) a, M WHERE M.k = a.k", [("k",), ("k",)]),
        (f"a.v FROM {HOPS} ON a.k = b.k AND a.window_end = b.window_end", [("k",), ("k",)]),
        (f"a.v FROM {HOPS} ON a.window_start = b.window_start", [(), ()]),
        ("a.x FROM F a, F b WHERE a.flag = b.flag", [(), ()]),
        ("a.x FROM F a, F b WHERE a.flag = b.flag AND a.x = b.x", [("flag", "x"), ("flag", "x")]),
    ],
)
def test_columns_that_decide_are_equal_in_all_rows_of_a_record_and_not_only_boolean(query: str, by: list) -> None:
    floats = "REGISTER SOURCE G (flag BOOLEAN, x DOUBLE) FROM t; CREATE STREAM F OVER G KEY NULL;"
    sql = f"{SOURCES}{floats}CREATE QUERY q {OPTIONS} AS SELECT STREAMED {query}"
    catalog, _ = apply_all(sql, environment=FakeEnvironment({"t": {0: 0}, "u": {0: 0}}))
    plan = plan_of("q", catalog)
    sheds = [node for node in walk(plan) if isinstance(node, logical.Shed)]
    names = [tuple(name.split(".")[-1] for name in shed.by) for shed in sheds]
    assert [tuple(sorted(each)) for each in names] == by


# --- what is refused


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("k, COUNT(*) AS n FROM S GROUP BY k", "an aggregate: its value over a part of the input"),
        ("k FROM S WHERE v > (SELECT MAX(w) FROM M)", "an aggregate"),
        ("S.k, w FROM S LEFT JOIN M ON S.k = M.k", "an outer join: a row whose partner is left out"),
        ("k FROM S WHERE NOT EXISTS (SELECT 1 FROM M WHERE M.k = S.k)", "the right side of a negation"),
        ("k FROM S EXCEPT SELECT k FROM M", "EXCEPT: a row would be in the result"),
        ("k, v FROM K", 'a keyed stream or table, "K": if a record is left out'),
        ("S.v FROM S, K WHERE S.k = K.k", 'a keyed stream or table, "K"'),
        ("k, v FROM S [Rows 5]", "a window of ROWS: if a row is left out"),
        ("k, v FROM S ORDER BY v LIMIT 3", "ORDER BY … LIMIT: other rows would take"),
        ("k, SUM(v) OVER (PARTITION BY k ORDER BY TS ROWS 3 PRECEDING) AS s FROM S", "OVER: a value is computed"),
        ("window_end, k FROM SESSION(TABLE S PARTITION BY k, DESCRIPTOR(TS), 3)", "a session window"),
        ("S.k, w FROM S ASOF JOIN M ON S.k = M.k AND S.v >= M.w", "an as-of join: if the nearest partner"),
        ("k FROM (SELECT DISTINCT k FROM S) [Range 3]", "a window over, or the TS of, rows of several records"),
    ],
)
def test_queries_whose_part_is_not_a_part_of_the_result_are_refused(query: str, message: str) -> None:
    session = LocalSession()
    session.execute(SOURCES)
    with pytest.raises(UserError, match=f"MAX_LOSS is not possible over {message}"):
        session.execute(f"CREATE QUERY q {OPTIONS} AS SELECT STREAMED {query}")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT Istream(k) FROM S [Range 3]", "Istream of rows that can leave"),
        ("SELECT Dstream(k) FROM S [Range 3]", "Dstream of rows that can leave"),
        ("SELECT k FROM Distinct_k [Range 3]", "a window over, or the TS of, rows of several records"),
        ("SELECT k, TS FROM Distinct_k", "a window over, or the TS of, rows of several records"),
        ("SELECT n FROM Counts", "an aggregate"),
    ],
)
def test_streams_and_views_that_depend_on_other_records_are_refused(query: str, message: str) -> None:
    session = LocalSession()
    session.execute(SOURCES + "CREATE VIEW Distinct_k AS SELECT DISTINCT k FROM S")
    session.execute("CREATE VIEW Counts AS SELECT STREAMED COUNT(*) AS n FROM S")
    with pytest.raises(UserError, match=f"MAX_LOSS is not possible over {message}"):
        session.execute(f"CREATE QUERY q {OPTIONS} AS {query}")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("max_loss = 1", "MAX_LOSS needs a number between 0 and 1"),
        ("max_loss = 0.5, max_error = 0.1", "MAX_LOSS cannot be combined with MAX_ERROR"),
        ("max_loss = 0.5, memory = '1 MB'", "MEMORY cannot be combined with MAX_LOSS"),
        ("max_loss = 0.5, error_columns = true", "ERROR_COLUMNS needs MAX_ERROR: with MAX_LOSS"),
        ("max_loss = 0.5, shed_where = 'v < 3'", "SHED_WHERE needs MAX_ERROR: with MAX_LOSS"),
        ("max_loss = 0.5, fragments = auto", "MAX_LOSS cannot be combined with FRAGMENTS"),
        ("deadline = '2 s'", "DEADLINE needs MAX_ERROR or MAX_LOSS"),
    ],
)
def test_options_that_cannot_be_combined_are_refused(options: str, message: str) -> None:
    catalog, _ = apply_all(SOURCES, environment=FakeEnvironment({"t": {0: 0, 1: 0}, "u": {0: 0, 1: 0}}))
    with pytest.raises(UserError, match=message):
        apply_all(f"CREATE QUERY q WITH ({options}) AS SELECT STREAMED k, v FROM S WHERE v > 1", catalog)


def test_a_view_cannot_lose_input() -> None:
    catalog, _ = apply_all(SOURCES, environment=FakeEnvironment({"t": {0: 0}, "u": {0: 0}}))
    with pytest.raises(UserError, match="MAX_LOSS needs a query: readers of a view expect exact results"):
        apply_all("CREATE VIEW v WITH (max_loss = 0.5) AS SELECT k FROM S", catalog)


def test_repair_publishes_the_rows_that_are_missing() -> None:
    """A quarter of the keys is kept, until REPAIR reads all records again."""
    logs = {topic: [[(at % 40, at % 3, at // 4) for at in range(120)]] for topic in "tu"}
    catalog, query = catalog_for(logs), catalog_for(logs).find("Both").id
    messages = {topic: [message(topic, 0, at, record) for at, record in enumerate(logs[topic][0])] for topic in "tu"}
    rates = {(catalog.find(name).id, 0): [(0, 0.25)] for name in "TU"}
    world = World({topic: {0: log[:80]} for topic, log in messages.items()}, sheds={query: rates})
    run(world, catalog, 2, [30])
    before = found(world, query, 30)
    (statement,) = parse("REPAIR QUERY Both")
    halt = with_halted(catalog, halt_with_readers(statement, catalog).queries)
    repaired, _ = apply(statement, halt, Reached(world))
    for topic, log in messages.items():
        world.logs[topic][0] = log
    run(world, repaired, 2, [50])
    rows = [[record for record in logs[topic][0] if record[2] < 29] for topic in "tu"]
    exact = expected(CASES["Both"], rows, 30)
    after = found(world, repaired.find("Both").id, 30)
    assert before < exact
    assert before + after == exact
