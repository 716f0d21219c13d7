"""AHEAD: a record far in the future is refused, so that it does not make later records of its source late."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from confluent_kafka import Message

from dsms.testing import LocalSession
from tests.support.fake_environment import FakeEnvironment, apply_all
from tests.support.pure_executor import World, run

NOW = 1_795_000_000_000
YEAR_9999 = 253_402_300_799_999
DAY = 86_400_000


def session(clauses: str, columns: str = "k INT") -> LocalSession:
    """A session with a fixed clock and a view of one source."""
    session = LocalSession()
    session.now = lambda: NOW
    session.execute(f"REGISTER SOURCE T ({columns}) FROM t {clauses}; CREATE STREAM S OVER T KEY NULL;"
                    "CREATE STREAMED VIEW V AS SELECT k FROM S")  # fmt: skip
    return session


def kept(session: LocalSession, instants: list[object], column: str = "ts") -> list[int]:
    """Pushes records with these instants; returns the numbers of those that are not refused."""
    session.push("T", [{"k": number, column: instant} for number, instant in enumerate(instants)])
    session.idle("T")
    return [row["k"] for _, row, _ in session.changes("V")]


def test_a_record_at_the_year_9999_does_not_silence_its_source() -> None:
    one = session("")
    assert kept(one, [NOW, YEAR_9999, NOW + 1]) == [0, 2]
    (letter,) = one.dead_letters("T")
    assert letter["reason"] == (
        f"instant {YEAR_9999} is ahead of the record's own timestamp, {NOW} ms, by more than AHEAD allows, {DAY} ms: "
        "it would make all later records late"
    )


@pytest.mark.parametrize("instants", [
    [1, 2, 5],
    [1, 1_000, 1_000_000],
    [NOW // 1_000, NOW // 1_000 + 10**6],
    [NOW * 1_000, (NOW + DAY) * 1_000],
    [NOW * 1_000_000, (NOW + DAY) * 1_000_000],
    [NOW - 365 * DAY, NOW, NOW + DAY],
], ids=["small", "growing", "seconds", "microseconds", "nanoseconds", "up to the bound"])  # fmt: skip
def test_instants_of_any_unit_are_not_refused(instants: list[object]) -> None:
    one = session("TIMESTAMP BY at", "k INT, at BIGINT")
    assert kept(one, instants, "at") == [*range(len(instants))], one.dead_letters("T")


@pytest.mark.parametrize("far", [NOW + DAY + 1, YEAR_9999, YEAR_9999 * 1_000, (NOW + 2 * DAY) * 1_000_000, 2**62 - 1])
def test_instants_far_ahead_are_refused_in_each_unit(far: int) -> None:
    assert kept(session("TIMESTAMP BY at", "k INT, at BIGINT"), [5, far, 7], "at") == [0, 2]


def test_a_timestamp_is_in_milliseconds() -> None:
    moments = [datetime.fromtimestamp((NOW + days * DAY) / 1_000, UTC).isoformat() for days in (0, 1, 2, 1)]
    assert kept(session("TIMESTAMP BY at", "k INT, at TIMESTAMP"), moments, "at") == [0, 1, 3]
    far = [moments[0], "9999-12-31T00:00:00Z", moments[1]]
    assert kept(session("TIMESTAMP BY at AHEAD 2 DAYS", "k INT, at TIMESTAMP"), far, "at") == [0, 2]


def test_ahead_any_accepts_all_instants() -> None:
    assert kept(session("AHEAD ANY"), [NOW, YEAR_9999, NOW + 1]) == [0, 1]


def log_of(instants: list[int], timestamps: list[int]) -> list[Message]:
    return [
        Message(
            topic="t", partition=0, offset=at, key=None, value=b'{"k": %d}' % at,
            headers=[("dsms-ts", str(instant).encode())], timestamp=(1, timestamp),
        )
        for at, (instant, timestamp) in enumerate(zip(instants, timestamps, strict=True))
    ]  # fmt: skip


@pytest.mark.parametrize("limits", [[1], [2], [100]])
def test_batches_do_not_matter_and_registering_again_is_a_way_back(limits: list[int]) -> None:
    """T reads the topic without a bound, so that later records are late; T2 reads the same log with a bound. A
    timestamp that is not a clock time bounds nothing."""
    sql = """
        REGISTER SOURCE T (k INT) FROM t AHEAD ANY; CREATE STREAM S OVER T KEY NULL;
        REGISTER SOURCE T2 (k INT) FROM t AHEAD 1 HOUR; CREATE STREAM S2 OVER T2 KEY NULL;
        CREATE QUERY Q AS SELECT STREAMED k FROM S; CREATE QUERY Q2 AS SELECT STREAMED k FROM S2;
    """
    instants = [NOW, YEAR_9999, NOW + 1, NOW + 2 * DAY, NOW + 2, NOW + 3]
    catalog, _ = apply_all(sql, environment=FakeEnvironment({"t": {0: 0}}))
    world = World({"t": {0: log_of(instants, [NOW] * 6)}})
    run(world, catalog, 1, limits)
    rows = {catalog.find(name).id: name for name in ("Q", "Q2")}
    shown = {rows[log.split("/")[0]]: [value for _, value, _ in listed] for log, listed in world.written.items()}
    assert shown["Q2"] == [b'{"k":0}', b'{"k":2}', b'{"k":4}']
    assert shown["Q"] == [b'{"k":0}']
    unknown = World({"t": {0: log_of([5, YEAR_9999, YEAR_9999], [7, -1, 0])}})
    run(unknown, catalog, 1, limits)
    assert not unknown.dead


def test_a_source_that_was_stored_before_there_was_a_bound_has_none() -> None:
    from msgspec import json

    from dsms.model.objects import Source

    catalog, _ = apply_all("REGISTER SOURCE T (k INT) FROM t")
    stored = json.decode(json.encode(catalog.find("T")))
    del stored["ahead_ms"]
    assert json.decode(json.encode(stored), type=Source).ahead_ms is None
