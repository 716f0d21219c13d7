"""A query moves from an executor whose queries fall behind to one with less load."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from dsms.coordinator.statements.changes_by_load import BEHIND_S, REST_S, ChangesByLoad
from dsms.coordinator.statements.moves_by_load import movable_groups, to_lighter_executor
from dsms.coordinator.watcher.progress import Progress
from dsms.placement.leases import RUNNING, ExecutorStatus
from tests.support.statement_cluster import StatementCluster

OBJECTS = """REGISTER SOURCE T (k INT, v INT) FROM t PARTITIONS 1; CREATE STREAM A OVER T KEY NULL;
CREATE STREAM B OVER T KEY NULL;
CREATE QUERY one AS SELECT STREAMED k, COUNT(*) AS n FROM A GROUP BY k;
CREATE QUERY two AS SELECT STREAMED v, COUNT(*) AS n FROM A GROUP BY v;
CREATE QUERY three AS SELECT STREAMED DISTINCT k FROM B"""
BEHIND = Progress(100, 50, 10.0, -1.0, behind=True)
CLOSING = Progress(100, 50, 10.0, 1.0, behind=True)


class BusyCluster(StatementCluster):
    """A cluster with three fragments on executors a and b; all queries run in fragment 0, on a."""

    def __init__(self, sql: str = OBJECTS) -> None:
        self.loads, self.own = {"0": 0.0, "1": 0.0, "2": 0.0}, dict[str, float]()
        #: The names of shared subplans, by the words that stand for them in `own`.
        self.subplans: dict[str, str] = {}
        super().__init__(sql, halt_s=0.5)
        changed = (msgspec.structs.replace(query, fragment="0") for query in self.store.catalog.queries())
        self.store.change(lambda catalog: (catalog.with_changed(*changed), None))
        self.loads, self.own = {"0": 1.2, "1": 0.0, "2": 0.1}, {"one": 0.7, "two": 0.4, "three": 0.1}

    def alive(self) -> Mapping[str, ExecutorStatus]:
        status = super().alive()["e"]
        parts = {"a": {"0": RUNNING, "1": RUNNING}, "b": {"2": RUNNING}}
        return {name: msgspec.structs.replace(status, fragments=fragments) for name, fragments in parts.items()}

    def utilization(self) -> Mapping[str, float]:
        return self.loads

    def load_by_queries(self) -> Mapping[tuple[str, frozenset[str]], float]:
        named = ((names.split(), load) for names, load in self.own.items())
        return {("0", frozenset(self.subplans.get(name, name) for name in names)): load for names, load in named}


class Duty:
    """The duty over a cluster, with a clock that the test sets."""

    def __init__(self, cluster: BusyCluster) -> None:
        self.cluster, self.now, self.progress = cluster, 0.0, dict[str, Progress]()
        remedies = [to_lighter_executor(cluster.parts)]
        self.duty = ChangesByLoad(cluster.parts, lambda: self.progress, remedies, lambda: self.now)

    def after(self, seconds: float, state: Progress, query: str = "three") -> dict[str, str]:
        """Runs a turn some seconds later, with a query in the given state; returns where the queries run then."""
        self.now += seconds
        self.progress = {self.cluster.query(query).id: state}
        self.duty.turn(self.cluster.alive())
        self.duty.await_change()
        return {name: self.cluster.query(name).fragment for name in ("one", "two", "three")}


@pytest.fixture
def duty() -> Duty:
    return Duty(BusyCluster())


HERE = {"one": "0", "two": "0", "three": "0"}


def test_a_query_moves_to_another_executor_after_a_minute(duty: Duty) -> None:
    assert duty.after(0, BEHIND) == duty.after(BEHIND_S - 1, BEHIND) == HERE
    assert duty.after(1, BEHIND) == {**HERE, "two": "2"}
    query = duty.cluster.query("two")
    assert (query.former_fragment, query.pinned) == ("0", False)
    assert duty.after(BEHIND_S, BEHIND) == {**HERE, "two": "2"}  # a change is followed by a rest
    duty.cluster.loads, duty.cluster.own = {"0": 0.8, "1": 0.0, "2": 0.5}, {"one": 0.7, "two": 0.4, "three": 0.1}
    assert duty.after(REST_S, BEHIND) == {**HERE, "two": "2"}  # the loads are nearly equal


def test_nothing_moves_while_queries_catch_up(duty: Duty) -> None:
    assert duty.after(0, CLOSING) == duty.after(BEHIND_S, CLOSING) == HERE


def test_nothing_moves_if_the_other_executor_has_as_much_load(duty: Duty) -> None:
    duty.cluster.loads = {"0": 1.2, "1": 0.0, "2": 1.1}
    assert duty.after(0, BEHIND) == duty.after(BEHIND_S, BEHIND) == HERE


def test_a_query_that_was_assigned_by_hand_stays(duty: Duty) -> None:
    duty.cluster.execute("ALTER QUERY two SET (fragment = '0')")
    assert duty.cluster.query("two").pinned
    duty.cluster.own["one"] = 0.0
    assert duty.after(0, BEHIND) == duty.after(BEHIND_S, BEHIND) == HERE
    duty.cluster.execute("ALTER QUERY two SET (fragment = auto)")
    assert not (duty.cluster.query("two").pinned or duty.cluster.query("two").halted)
    assert duty.after(REST_S, BEHIND) == {**HERE, "two": "2"}


def test_fragments_without_an_executor_are_left_out(duty: Duty) -> None:
    (moved,) = [query for query in duty.cluster.store.catalog.queries() if query.name == "one"]
    duty.cluster.store.change(
        lambda catalog: (catalog.with_changed(msgspec.structs.replace(moved, fragment="7")), None)
    )
    duty.cluster.loads["7"] = 3.0
    assert duty.after(0, BEHIND, "one") == duty.after(BEHIND_S, BEHIND, "one") == {**HERE, "one": "7"}
    assert duty.after(0, BEHIND) == {**HERE, "one": "7"}
    assert duty.after(BEHIND_S, BEHIND) == {"one": "7", "two": "2", "three": "0"}


FOUR = "SELECT STREAMED n, COUNT(*) AS c FROM (SELECT k, COUNT(*) AS n FROM A GROUP BY k) GROUP BY n"
FIVE = "SELECT STREAMED k FROM A WHERE v > 1"
MORE = f"{OBJECTS}; CREATE QUERY four AS {FOUR}; CREATE QUERY five AS {FIVE}"


def groups(cluster: BusyCluster) -> set[tuple[str, ...]]:
    return {group.names for group in movable_groups(cluster.store.catalog)}


def test_queries_that_share_operators_move_together() -> None:
    cluster = BusyCluster(MORE)
    assert groups(cluster) == {("one", "four"), ("two",), ("three",), ("five",)}
    cluster.loads = {"0": 1.4, "1": 0.0, "2": 0.1}
    cluster.own = {"one": 0.1, "four": 0.1, "one four": 0.5, "one two": 0.3, "two": 0.2}
    duty = Duty(cluster)
    assert duty.after(0, BEHIND) == duty.after(BEHIND_S - 1, BEHIND) == HERE
    assert duty.after(1, BEHIND) == {"one": "2", "two": "0", "three": "0"}
    assert (cluster.query("four").fragment, cluster.query("four").former_fragment) == ("2", "0")
    assert not (cluster.query("one").links or cluster.query("four").links)


def test_shared_subplans_move_along() -> None:
    linked = "CREATE QUERY six WITH (FRAGMENT = '2') AS SELECT STREAMED n, MAX(k) AS k FROM (SELECT k, COUNT(*) AS n "
    cluster = BusyCluster(MORE)
    cluster.execute(f"{linked} FROM A GROUP BY k) GROUP BY n; ALTER QUERY six SET (fragment = auto)")
    (link,) = cluster.query("six").links
    assert groups(cluster) == {("one", "four"), ("two",), ("three",), ("five",), ("six",)}
    cluster.loads = {"0": 1.4, "1": 0.0, "2": 0.1}
    cluster.own, cluster.subplans = {"one": 0.1, "one four six link": 0.5, "two": 0.2}, {"link": link.name}
    duty = Duty(cluster)
    assert duty.after(0, BEHIND) == duty.after(BEHIND_S - 1, BEHIND) == HERE
    assert duty.after(1, BEHIND) == {"one": "2", "two": "0", "three": "0"}
    (link,) = cluster.query("six").links
    assert (link.fragment, link.former_fragment, cluster.query("six").halted) == ("2", "0", False)
    cluster.execute("ALTER QUERY two SET (fragment = '0')")
    assert ("two",) not in groups(cluster)


def test_the_only_readers_of_a_source_stay_where_its_dead_letters_are_written() -> None:
    one = "REGISTER SOURCE U (k INT) FROM u PARTITIONS 1; CREATE STREAM C OVER U KEY NULL"
    first = "CREATE QUERY seven AS SELECT STREAMED k, COUNT(*) AS n FROM C GROUP BY k"
    second = "CREATE QUERY eight AS SELECT STREAMED n, COUNT(*) AS c FROM (SELECT k, COUNT(*) AS n FROM C GROUP BY k)"
    cluster = BusyCluster(f"{OBJECTS}; {one}; {first}; {second} GROUP BY n")
    home = msgspec.structs.replace(cluster.store.catalog.get("U"), home="0")
    cluster.store.change(lambda catalog: (catalog.with_changed(home), None))
    assert groups(cluster) == {("one",), ("two",), ("three",)}
    cluster.execute("CREATE QUERY nine WITH (FRAGMENT = '0') AS SELECT STREAMED k FROM C")
    assert ("seven", "eight") in groups(cluster)
