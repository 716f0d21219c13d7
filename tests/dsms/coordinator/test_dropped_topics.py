"""The topics of dropped objects are deleted, even if the coordinator ends or Kafka fails before that."""

from __future__ import annotations

import pytest

from dsms.coordinator.catalog.catalog_records import Meta, catalog_of, meta_of
from dsms.coordinator.statements.dropped_topics import LeftTopics
from dsms.local.waiting import wait_until
from dsms.model.dropped_topics import DroppedTopic
from operators.core.decoding import decoded
from operators.core.errors import ExternalError
from tests.support.statement_cluster import StatementCluster

CREATE = "CREATE QUERY q AS SELECT k FROM R(S)"


@pytest.fixture
def cluster() -> StatementCluster:
    return StatementCluster()


def take_turns(cluster: StatementCluster) -> None:
    """Runs the duty until no topic is left."""
    duty = LeftTopics(cluster.parts)

    def none_left() -> bool:
        duty(cluster.alive())
        return not cluster.store.catalog.dropped_topics

    assert wait_until(none_left, 10)


def test_a_coordinator_that_ends_between_drop_and_deletion_leaves_no_topic(cluster: StatementCluster) -> None:
    with cluster.waiting_for_executors("DROP QUERY q"):
        log_when_it_ended = cluster.log.catalog
    next_one = StatementCluster("", catalog=log_when_it_ended)
    with pytest.raises(ExternalError, match='topic "dsms.q" is being deleted; try again'):
        next_one.execute(CREATE)
    take_turns(next_one)
    assert next_one.topics.deleted == ["dsms.q"]
    next_one.execute(CREATE)


def test_a_drop_while_kafka_deletes_nothing_succeeds_and_the_topic_is_deleted_later(cluster: StatementCluster) -> None:
    cluster.topics.away = True
    result = cluster.execute("DROP QUERY q")[0]
    assert result.notices == ('deleted later: topic "dsms.q" (kafka is away)',)
    with pytest.raises(ExternalError, match='topic "dsms.q" is being deleted; try again'):
        cluster.execute(CREATE)
    cluster.topics.away = False
    take_turns(cluster)
    cluster.execute(CREATE)


def test_the_duty_leaves_a_topic_to_the_drop_that_deletes_it(cluster: StatementCluster) -> None:
    duty = LeftTopics(cluster.parts)
    with cluster.waiting_for_executors("DROP QUERY q") as drop:
        assert wait_until(lambda: cluster.parts.deletions.free(["dsms.q"]) == [], 10)
        duty(cluster.alive())
        assert not duty.background.busy
    drop.result()
    assert cluster.topics.deleted == ["dsms.q"]


def test_the_duty_leaves_a_topic_to_the_drop_that_has_just_listed_it(cluster: StatementCluster) -> None:
    duty = LeftTopics(cluster.parts)
    listed: list[bool] = []

    def turn() -> None:
        duty(cluster.alive())
        listed.append("dsms.q" in cluster.store.catalog.dropped_topics)
        assert not duty.background.busy

    cluster.changed = turn
    cluster.execute("DROP QUERY q")
    assert listed == [True, False] and cluster.topics.deleted == ["dsms.q"]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE QUERY other AS SELECT k FROM R(S)",
        "CREATE OR REPLACE VIEW base AS SELECT k, v FROM R(S) WHERE v > 7",
        "CREATE TABLE d (k INT, PRIMARY KEY (k)); INSERT INTO d SELECT k FROM base",
        "CREATE FUNCTION f(x INT) RETURNS INT LANGUAGE PYTHON AS $$def f(x): return x$$",
        "CREATE AGGREGATE a(x INT): INT { TABLE t(x INT); INITIALIZE: ITERATE: { INSERT INTO t VALUES (x); }"
        " TERMINATE: { INSERT INTO RETURN SELECT x FROM t; } }",
        "PAUSE QUERY base",
        "DROP VIEW base",
    ],
)
def test_no_statement_forgets_a_topic_that_is_to_be_deleted(cluster: StatementCluster, statement: str) -> None:
    cluster.topics.away = True
    cluster.execute("DROP QUERY q")
    cluster.execute(statement)
    assert "dsms.q" in cluster.store.catalog.dropped_topics


def test_the_log_of_the_catalog_keeps_dropped_topics() -> None:
    dropped = DroppedTopic("dsms.q", "o7", "Eh3QE", linked=True)
    meta = decoded(b'{"version": 3, "ids": 7, "term": 1}', Meta)  # as earlier versions wrote it
    catalog = catalog_of(meta, {}).with_dropped_topics([dropped])
    assert catalog_of(meta_of(catalog, 2), {}) == catalog
    assert catalog.without_dropped_topics(["dsms.q"]).dropped_topics == {}
