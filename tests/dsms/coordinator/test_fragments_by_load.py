"""FRAGMENTS = AUTO: only a query that constantly falls behind gets more fragments."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from dsms.coordinator.statements.changes_by_load import BEHIND_S, REST_S, ChangesByLoad
from dsms.coordinator.statements.fragments_by_load import more_fragments
from dsms.coordinator.watcher.progress import Progress
from dsms.placement.leases import RUNNING, ExecutorStatus
from tests.support.statement_cluster import StatementCluster

OBJECTS = """REGISTER SOURCE T (k INT, v INT) FROM t PARTITIONS 4;
CREATE STREAM A OVER T KEY NULL;
CREATE QUERY q WITH (FRAGMENTS = AUTO, PARTITIONS = 4) AS SELECT STREAMED k, v FROM A;
CREATE QUERY fixed WITH (PARTITIONS = 4) AS SELECT STREAMED k, v FROM A WHERE v > 0"""
BEHIND = Progress(100, 50, 10.0, -1.0, behind=True)
CLOSING = Progress(100, 50, 10.0, 1.0, behind=True)
ALIVE: Mapping[str, ExecutorStatus] = {name: ExecutorStatus(RUNNING) for name in ("e", "f", "g")}


class FourFragments(StatementCluster):
    """A cluster with four fragments."""

    def alive(self) -> Mapping[str, ExecutorStatus]:
        status = super().alive()["e"]
        return {"e": msgspec.structs.replace(status, fragments=dict.fromkeys(self.utilization(), RUNNING))}

    def utilization(self) -> Mapping[str, float]:
        return {str(number): 0.0 for number in range(4)}


class Duty:
    """The duty over a cluster, with a clock that the test sets."""

    def __init__(self) -> None:
        self.cluster, self.now, self.progress = FourFragments(OBJECTS, halt_s=0.5), 0.0, dict[str, Progress]()
        self.duty = ChangesByLoad(
            self.cluster.parts, lambda: self.progress, [more_fragments(self.cluster.parts)], lambda: self.now
        )

    def turn(self, seconds: float, state: Progress, alive: Mapping[str, ExecutorStatus] = ALIVE) -> int:
        """Runs a turn some seconds later, with all queries in the given state; returns how many fragments run q
        then."""
        self.now += seconds
        self.progress = {self.cluster.query(name).id: state for name in ("q", "fixed")}
        self.duty.turn(alive)
        self.duty.await_change()
        return len(self.cluster.query("q").fragments)


@pytest.fixture
def duty() -> Duty:
    return Duty()


def test_fragments_are_doubled_after_a_minute_up_to_as_many_as_there_are_executors(duty: Duty) -> None:
    assert duty.turn(0, BEHIND) == 1 and duty.turn(BEHIND_S - 1, BEHIND) == 1
    assert duty.turn(1, BEHIND) == 2
    assert duty.turn(BEHIND_S, BEHIND) == 2 and duty.turn(BEHIND_S, BEHIND) == 2  # a change is followed by a rest
    assert duty.turn(REST_S, BEHIND) == 3
    assert duty.turn(REST_S, BEHIND) == duty.turn(REST_S, BEHIND) == 3
    assert duty.cluster.query("q").fragments_by_load and len(duty.cluster.query("fixed").fragments) == 1


def test_a_query_that_catches_up_keeps_its_fragments(duty: Duty) -> None:
    assert duty.turn(0, BEHIND) == duty.turn(BEHIND_S - 1, CLOSING) == duty.turn(1, BEHIND) == 1
    assert duty.turn(BEHIND_S - 1, BEHIND) == 1 and duty.turn(1, BEHIND) == 2


def test_one_executor_gets_no_more_fragments(duty: Duty) -> None:
    alone = {"e": ExecutorStatus(RUNNING)}
    assert duty.turn(0, BEHIND, alone) == duty.turn(BEHIND_S, BEHIND, alone) == 1


def test_executors_that_do_not_follow_leave_it_as_it_is(duty: Duty) -> None:
    with duty.cluster.executor_stuck():
        assert duty.turn(0, BEHIND) == duty.turn(BEHIND_S, BEHIND) == 1
    assert not duty.cluster.query("q").halted
    assert duty.turn(REST_S, BEHIND) == 1 and duty.turn(BEHIND_S, BEHIND) == 2
