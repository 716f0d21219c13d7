"""Why a result has no final instant yet, and waiting until it has one."""

from __future__ import annotations

import threading
from itertools import count

import pytest

from dsms.coordinator.catalog.lookup import error_for
from dsms.coordinator.results import missing_instant
from dsms.coordinator.results.missing_instant import awaited_instant, reasons
from dsms.local.waiting import wait_until
from dsms.model.no_final_instant import NoFinalInstant
from dsms.model.objects import Source
from dsms.model.principal import AccessRules, Principal
from dsms.tables.select_budget import Cancelled

NOW = 1_800_000_010_000


def source(idle_ms: int | None) -> Source:
    return Source(name="S", id="o1", sql="", columns=(), topic="t", partitions=2, idle_ms=idle_ms)


def test_a_topic_without_records() -> None:
    assert list(reasons(source(5_000), {("t", 0): None, ("t", 1): None}, NOW)) == ['topic "t" has no records']


def test_partitions_that_are_idle_soon() -> None:
    assert list(reasons(source(5_000), {("t", 1): NOW - 1_500, ("t", 0): NOW - 9_000}, NOW)) == [
        'partition 0 of topic "t" has been silent since 2027-01-15T08:00:01Z; final in 0 s',
        'partition 1 of topic "t" has been silent since 2027-01-15T08:00:08Z; final in 4 s',
    ]


def test_partitions_that_are_never_idle() -> None:
    found = list(reasons(source(None), {("t", 0): NOW, ("t", 1): None}, NOW))
    assert found[1] == (
        'partition 1 of topic "t" has no records, and source "S" waits for it: send a record or a heartbeat'
    )


def test_a_statement_waits_until_there_is_an_instant() -> None:
    tries = count(1)

    def act() -> int:
        if (number := next(tries)) < 3:
            raise NoFinalInstant("not yet")
        return number

    assert awaited_instant(act, 60, threading.Event()) == 3


def test_a_statement_that_does_not_wait_or_is_cancelled() -> None:
    tries, cancelled = count(1), threading.Event()

    def act() -> int:
        next(tries)
        raise NoFinalInstant("not yet")

    with pytest.raises(NoFinalInstant):
        awaited_instant(act, 0, cancelled)
    cancelled.set()
    with pytest.raises(Cancelled):
        awaited_instant(act, 60, cancelled)
    assert next(tries) == 3


def test_a_caller_who_may_not_read_a_source_does_not_learn_its_name() -> None:
    error = NoFinalInstant('view "v"').waiting(
        [("A", 'topic "a" is silent'), ("B", 'topic "b" is'), ("C", 'topic "c" is')]
    )
    assert 'topic "a" is silent, topic "b" is, topic "c" is' in str(error)
    ann = Principal("ann", "reader", AccessRules.of(read=["v", "B"]))
    shown = str(error_for(ann, error))
    hidden = "it waits for a source that you may not read"
    assert shown.startswith(f'view "v" has no final instant yet: {hidden}, topic "b" is; ')


def test_only_some_statements_wait_at_a_time() -> None:
    """The others fail at once, so that there are threads for statements that need not wait."""
    waiting, cancelled, failed = [threading.Event() for _ in range(3)], threading.Event(), []

    def wait(begun: threading.Event) -> None:
        def act() -> int:
            begun.set()
            raise NoFinalInstant("not yet")

        try:
            awaited_instant(act, 60, cancelled)
        except Cancelled as error:
            failed.append(error)

    threads = [threading.Thread(target=wait, args=(begun,)) for begun in waiting]
    for thread in threads:
        thread.start()
    tried = count()

    def fourth() -> int:
        next(tried)
        raise NoFinalInstant("not yet")

    assert wait_until(lambda: missing_instant._waiting._value == 0, 60)
    with pytest.raises(NoFinalInstant):
        awaited_instant(fourth, 60, threading.Event())
    assert next(tried) == 1
    cancelled.set()
    for thread in threads:
        thread.join()
    assert len(failed) == 3
