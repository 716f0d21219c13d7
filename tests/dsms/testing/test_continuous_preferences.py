"""WITH PREFERENCE in a continuous query: which records are kept is a function of the logs, here computed again with
splitmix64 and CRC-32 in Python's integers, and DuckDB computes the result over them."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from zlib import crc32

import duckdb
import msgspec
import polars as pl
import pytest
from confluent_kafka import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.kafka.logs.internal_log import Entry
from connectors.kafka.logs.shed_log import read_decision
from dsms.model.catalog import Catalog
from dsms.testing import LocalSession
from operators.core.delta import Delta
from operators.core.errors import SqlError, UserError
from operators.core.operator import Move
from operators.streams.preferred_values import Fraction, Preferred
from operators.streams.settings import LoggedSetting, settings_of
from operators.streams.shed import Shed
from tests.dsms.testing.test_max_loss import found
from tests.support.fake_environment import FakeEnvironment, apply_all
from tests.support.pure_executor import World, run
from tests.support.splitmix import SHEDDING, chance, place

SOURCES = "REGISTER SOURCE T (item VARCHAR, v INT) FROM t; CREATE STREAM S OVER T KEY NULL;"
QUERIES = {
    "Chosen": ("item, v FROM S WHERE v > 0 WITH PREFERENCE DESC COUNT(item)", "SELECT item, v FROM a WHERE v > 0"),
    "Rare": (
        "DISTINCT v FROM S [Range 3] WITH PREFERENCE ASC COUNT(S.Item)",
        "SELECT DISTINCT v FROM a WHERE ts >= now - 3",
    ),
    "Alike": ("v + 1 AS w FROM S WITH PREFERENCE WEIGHTED COUNT(item)", "SELECT v + 1 FROM a"),
}
OPTIONS = "WITH (max_loss = 0.9, deadline = '1 s')"
LAST = 10
DATABASE = duckdb.connect()
ITEMS = (None, "a", "b", "ä", "d")
RECORD = st.tuples(st.sampled_from(ITEMS), st.integers(0, 3), st.integers(0, LAST))
LOG = st.lists(RECORD, max_size=20).map(lambda log: [*sorted(log, key=lambda record: record[2]), ("a", 0, LAST + 20)])
PART = st.sampled_from([0.0, 0.25, 0.5, 1.0])


def checksum(item: str | None) -> int:
    return crc32(json.dumps({"0": item}, separators=(",", ":"), ensure_ascii=False).encode())


VALUES = st.sets(st.sampled_from(ITEMS)).map(lambda items: tuple(sorted(map(checksum, items))))
RATES = st.sampled_from([1.0, 0.5]) | st.builds(Preferred, st.just(0.5), PART, PART, VALUES)


@cache
def catalog_of(partitions: int) -> Catalog:
    queries = ";".join(f"CREATE QUERY {name} {OPTIONS} AS SELECT STREAMED {sql}" for name, (sql, _) in QUERIES.items())
    environment = FakeEnvironment({"t": dict.fromkeys(range(partitions), 0)})
    return apply_all(SOURCES + queries, environment=environment)[0]


def message(partition: int, offset: int, record: tuple[str | None, int, int]) -> Message:
    item, v, ts = record
    body = json.dumps({"item": item, "v": v}).encode()
    return Message(topic="t", partition=partition, offset=offset, key=None, value=body, headers=[], timestamp=(1, ts))


def shed_run(logs, targets, limits, crash_at=None, rates=None, sheds=None) -> World:
    messages = {p: [message(p, at, record) for at, record in enumerate(log)] for p, log in enumerate(logs)}
    catalog = catalog_of(len(logs))
    wanted = None if rates is None else [{catalog.find(name).id: rate for name in QUERIES} for rate in rates]
    world = World({"t": messages}, sheds=copy.deepcopy(sheds) if sheds else {})
    return run(world, catalog, targets, limits, crash_at, rates=wanted)


def rate_of(fraction: Fraction, item: str | None, prefers: bool) -> float:
    if isinstance(fraction, float):
        return fraction
    if not prefers:
        return fraction.fraction
    return fraction.listed if checksum(item) in fraction.values else fraction.others


def kept(logs, name: str, rates: Mapping[tuple[str, int], Sequence[tuple[int, Fraction]]]) -> Iterator[tuple]:
    source = catalog_of(len(logs)).find("T")
    for partition, log in enumerate(logs):
        for offset, record in enumerate(log):
            known = [(0, 1.0), *rates.get((source.id, partition), ())]
            fraction = [fraction for start, fraction in known if start <= offset][-1]
            if chance(place(source.number, partition, offset), SHEDDING) < rate_of(
                fraction, record[0], name != "Alike"
            ):
                yield record


def expected(name: str, rows: list[tuple], at: int) -> Counter[tuple]:
    DATABASE.execute("CREATE OR REPLACE TABLE a (item TEXT, v INT, ts INT)")
    if known := [row for row in rows if row[2] <= at]:
        DATABASE.executemany("INSERT INTO a VALUES (?, ?, ?)", known)
    return Counter(DATABASE.execute(QUERIES[name][1].replace("now", str(at))).fetchall())


@settings(max_examples=6)
@given(
    st.lists(LOG, min_size=1, max_size=2),
    st.integers(1, 3),
    st.lists(st.integers(4, 14), min_size=1, max_size=3),
    st.none() | st.integers(0, 4),
    st.lists(RATES, min_size=1, max_size=4),
)
def test_results_are_those_over_the_records_that_the_logged_rates_keep(logs, targets, limits, crash_at, rates) -> None:
    cut = shed_run(logs, targets, limits, crash_at, rates)
    for name in QUERIES:
        query = catalog_of(len(logs)).find(name).id
        part = list(kept(logs, name, cut.sheds.get(query, {})))
        for at in (1, 4, 9, 12):
            result = found(cut, query, at)
            assert result == expected(name, part, at), (name, at)
            assert result <= expected(name, [record for log in logs for record in log], at), (name, at)
    whole = shed_run(logs, 1, [1000], sheds=cut.sheds)
    assert cut.written == whole.written


def test_a_shed_counts_the_values_of_the_preferred_column() -> None:
    items = ["a"] * 30 + ["b"] * 9 + [None]
    frame = pl.DataFrame({"item": items}).with_columns(
        __from=pl.int_range(40), __to=99, __weight=1, __order=pl.int_range(40)
    )
    seen = Shed("q", prefers="item").statistics(Delta(frame), 40)
    assert seen is not None
    assert seen.counts == {checksum(item): float(count) for item, count in Counter(items).items()}


def test_zeros_that_are_equal_in_sql_are_kept_or_left_out_together() -> None:
    for n in range(40):
        rows = Delta.of([("+", {"x": x, "n": n}, 0) for x in (0.0, -0.0)])
        kept = Shed("q", by=("x", "n")).under(settings_of(0, [(0, 0.5)])).step(rows, (), Move(0, 9)).delta
        assert len(kept) in (0, 2)
    zero, preferring = crc32(b'{"0":0.0}'), Shed("q", prefers="x")
    seen = preferring.statistics(rows, 2)
    assert seen is not None
    assert seen.counts == {zero: 2.0}
    only_zero = preferring.under(settings_of(0, [(0, Preferred(0.5, 1.0, 0.0, (zero,)))]))
    assert len(only_zero.step(rows, (), Move(0, 9)).delta) == 2


def test_a_preferred_rate_is_logged_with_its_values() -> None:
    setting = LoggedSetting(7, Preferred(0.5, 1.0, 0.25, (3, 2**32 - 1)), 900, 901)
    entry = Entry(b"o4/o1/0", msgspec.json.encode(setting), 0, 0)
    assert read_decision(entry) == ("o4", ("o1", 0), setting)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE QUERY q AS SELECT STREAMED v FROM S", "needs MAX_LOSS: without it no input is shed"),
        ("CREATE QUERY q WITH (max_error = 0.1) AS SELECT STREAMED COUNT(*) AS n FROM S", "needs MAX_LOSS"),
        ("SELECT STREAMED v FROM S", "needs CREATE QUERY and MAX_LOSS"),
        ("CREATE VIEW q WITH (max_loss = 0.1) AS SELECT v FROM S", "MAX_LOSS needs a query"),
        (f"CREATE QUERY q {OPTIONS} AS SELECT STREAMED a.v FROM S a, S b WHERE a.v = b.v", "needs a single stream"),
    ],
)
def test_where_a_preference_is_refused(text: str, message: str) -> None:
    session = LocalSession()
    session.execute(SOURCES)
    with pytest.raises(UserError, match=message):
        session.execute(f"{text} WITH PREFERENCE DESC COUNT(item)")


@pytest.mark.parametrize(
    ("preference", "message"),
    [
        ("COUNT(nothing)", 'stream "S" has no column "nothing"; have: item, v'),
        ("COUNT(item), COUNT(v)", "takes one COUNT.column."),
        ("COUNT(v) * v", "takes one COUNT.column."),
        ("COUNT(v) FADE FACTOR 0.5", "FADE FACTOR, WINDOW and BUDGET are not supported"),
        ("COUNT(v) BUDGET 5 SECONDS", "FADE FACTOR, WINDOW and BUDGET are not supported"),
    ],
)
def test_what_a_preference_cannot_have(preference: str, message: str) -> None:
    session = LocalSession()
    session.execute(SOURCES)
    with pytest.raises(UserError, match=message):
        session.execute(f"CREATE QUERY q {OPTIONS} AS SELECT STREAMED v FROM S WITH PREFERENCE {preference}")


@pytest.mark.parametrize("direction", ["DESC", "ASC", "WEIGHTED"])
@pytest.mark.parametrize(
    ("query", "counted", "message"),
    [
        ("v FROM S", "nosuch.item", 'WITH PREFERENCE: "nosuch" is not the stream of the query; write COUNT.item.'),
        ("a.v FROM S AS a", "b.item", '"b" is not the stream of the query; write COUNT.item., or one of: S, a'),
        ("v FROM S", "nothing", 'stream "S" has no column "nothing"; have: item, v'),
        ("a.v FROM S a, S b WHERE a.v = b.v", "item", "needs a single stream; read one stream, once"),
    ],
)
def test_a_preference_for_no_column_of_the_only_stream_is_refused_with_its_place(direction, query, counted, message):
    sql = f"CREATE QUERY q {OPTIONS} AS SELECT STREAMED {query}\n  WITH PREFERENCE {direction} COUNT({counted})"
    session = LocalSession()
    session.execute(SOURCES)
    with pytest.raises(SqlError, match=message) as raised:
        session.execute(sql)
    assert (raised.value.line, raised.value.column) == (2, sql.splitlines()[1].index("COUNT") + 1)


@pytest.mark.parametrize("counted", ["item", "S.item", "s.Item", "A.item"])
def test_a_preferred_column_can_be_named_with_its_stream_or_alias(counted: str) -> None:
    sql = f"CREATE QUERY q {OPTIONS} AS SELECT STREAMED a.v FROM S AS a WITH PREFERENCE COUNT({counted})"
    assert apply_all(SOURCES + sql, environment=FakeEnvironment({"t": {0: 0}}))[0].find("q").preference is not None


def test_the_answer_says_which_values_are_kept_first() -> None:
    answers = {}
    for direction in ("DESC", "ASC", "WEIGHTED"):
        sql = f"CREATE QUERY q {OPTIONS} AS SELECT STREAMED v FROM S WITH PREFERENCE {direction} COUNT(item)"
        _, results = apply_all(SOURCES + sql, environment=FakeEnvironment({"t": {0: 0}}))
        (answers[direction],) = (notice for notice in results[-1].notices if notice.startswith("input may be shed"))
    shed = "input may be shed: at most 0.9 of each stream, DEADLINE 1000 MS"
    assert answers == {
        "DESC": f"{shed}; frequent values of item are kept first",
        "ASC": f"{shed}; rare values of item are kept first",
        "WEIGHTED": shed,
    }
