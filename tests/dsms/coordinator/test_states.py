"""The displayed state of every object. A listing reads the executors' status once."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from dsms.coordinator.catalog.system_objects import with_system_objects
from dsms.coordinator.statements.environment import cluster_environment
from dsms.coordinator.watcher.object_states import States
from dsms.coordinator.watcher.progress import Progress
from dsms.model.catalog import Catalog
from dsms.model.objects import Object
from dsms.model.principal import ANYBODY
from dsms.placement.leases import RUNNING, ExecutorStatus, QueryStatus
from dsms.statements.registry import apply, parse
from operators.core.errors import ExternalError
from tests.support.fake_environment import apply_all
from tests.support.statement_cluster import StatementCluster

CATALOG = apply_all("""REGISTER SOURCE T (k INT, v VARCHAR) FROM t; REGISTER SOURCE U (k INT) FROM t;
    CREATE STREAM S OVER T KEY k; CREATE QUERY A AS SELECT k, v FROM S; CREATE QUERY B AS SELECT v FROM S;
    CREATE QUERY C AS SELECT k FROM S; CREATE QUERY D AS SELECT k FROM S; CREATE QUERY E AS SELECT k FROM S;
    PAUSE QUERY E""")[0]
ALIVE = {
    "one": ExecutorStatus(RUNNING, lanes={"o4": QueryStatus(7), "o5": QueryStatus(5)}, dead_letters={"T": 2}),
    "two": ExecutorStatus("recovering", lanes={"o6": QueryStatus(3, error="1 / 0\nat k")}, dead_letters={"T": 1}),
}


ADDED_LATER = "partitions were added and are not read yet"


class Cluster:
    """Counts how often the status of executors is read. None represents an unreachable Redis."""

    def __init__(self, alive: Mapping[str, ExecutorStatus] | None) -> None:
        self.alive, self.looks = alive, 0

    def look(self) -> Mapping[str, ExecutorStatus]:
        self.looks += 1
        if self.alive is None:
            raise ExternalError("redis is away")
        return self.alive

    def states(self) -> States:
        return States(self.look, {"o5": Progress(1, 3, behind=True)})


def halted(catalog: Catalog, name: str) -> Object:
    return msgspec.structs.replace(catalog.find(name), halted=True)  # type: ignore[type-var]


def test_displayed_state_of_each_object() -> None:
    cluster = Cluster(ALIVE)
    states, catalog = cluster.states(), with_system_objects(CATALOG, "c", 1)
    displayed = {
        name: states.of(catalog.find(name)) for name in ("dsms_queues", "T", "U", "S", "A", "B", "C", "D", "E")
    }
    assert displayed == {
        "dsms_queues": "system",
        "T": "registered, 3 dead letters",
        "U": "registered",
        "S": "registered",
        "A": "running",
        "B": "catching up 25 %",
        "C": "failed: 1 / 0",
        "D": "waiting for an executor",
        "E": "paused",
    }
    assert states.of(halted(catalog, "A")) == "halted"
    assert [states.frontier(query) for query in catalog.queries()] == [7, 5, 3, None, None]
    assert cluster.looks == 1


@pytest.mark.parametrize(
    ("topics", "said"),
    [
        ({"t": 2, "u": 9}, "registered, 3 dead letters"),
        (
            {"t": 3},
            f"registered, 3 dead letters, 1 of 3 {ADDED_LATER}",
        ),
        ({"u": 9}, 'registered, 3 dead letters, topic "t" has only 0 of 2 partitions'),
    ],
)
def test_changed_topic_is_shown_in_the_state_of_its_source(topics: dict[str, int], said: str) -> None:
    looks = []
    states = States(lambda: ALIVE, {}, lambda: looks.append(1) or topics)
    assert [states.of(CATALOG.find("T")) for _ in range(2)] == [said, said]
    assert states.of(CATALOG.find("S")) == "registered" and looks == [1]


def test_unknown_states_read_redis_once() -> None:
    cluster = Cluster(None)
    states = cluster.states()
    displayed = [states.of(CATALOG.find(name)) for name in ("S", "T", "A", "D", "E")]
    unknown = "unknown: redis is away"
    assert displayed == ["registered", unknown, unknown, unknown, "paused"]
    for query in CATALOG.queries():
        with pytest.raises(ExternalError, match="redis is away"):
            states.frontier(query)
    assert cluster.looks == 1


@pytest.mark.parametrize(("sql", "looks"), [("SHOW QUERIES", 1), ("SHOW SOURCES", 1), ("SHOW STREAMS", 0)])
def test_a_listing_looks_once(sql: str, looks: int) -> None:
    cluster, facts = Cluster(ALIVE), StatementCluster("")
    facts.states = cluster.states
    _, result = apply(parse(sql)[0], CATALOG, cluster_environment(facts, ANYBODY.principal))
    assert len(result.rows) > 0
    assert cluster.looks == looks


def test_a_source_says_what_it_waits_for_and_that_its_topic_is_another_one() -> None:
    waiting = ExecutorStatus(RUNNING, waits={"T": "waiting for schema 7 at t/0/3: it is not in the registry"})
    states = States(lambda: {"one": waiting}, {}, topic_ids=lambda: {"t": "another"})
    assert states.of(CATALOG.find("T")) == (
        "registered, waiting for schema 7 at t/0/3: it is not in the registry, "
        'topic "t" was deleted and re-created: drop the source, and create it again'
    )
    same = States(lambda: {}, {}, topic_ids=lambda: {"t": "id of t"})
    assert same.of(CATALOG.find("T")) == "registered"


def test_a_query_that_waits_for_a_schema_says_so_instead_of_running() -> None:
    waits = tuple(f"waiting for schema 7 at t/{partition}/3: it is not in the registry" for partition in (0, 1))
    query = CATALOG.find("A")
    for count, more in ((1, ""), (2, ", and 1 more")):
        status = ExecutorStatus(RUNNING, lanes={query.id: QueryStatus(9, waits=waits[:count])})
        states = States(lambda status=status: {"one": status}, {})
        assert states.of(query) == f"waiting for schema 7 at t/0/3: it is not in the registry{more}"
