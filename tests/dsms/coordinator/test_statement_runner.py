"""Which function runs each statement, the order of a script, and which statements wait for executors."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from dsms.coordinator.statements.registry_hosts import RegistryHosts
from dsms.coordinator.statements.statement_runner import Permitted, StatementRunner
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Source
from dsms.model.principal import ANYBODY, Caller, Forbidden, Principal
from dsms.placement.leases import QueryStatus
from dsms.statements.registry import STATEMENTS, parse
from operators.core.errors import ExternalError, SqlError, UserError
from tests.support.fake_environment import apply_all
from tests.support.statement_cluster import StatementCluster


@pytest.fixture
def cluster() -> StatementCluster:
    return StatementCluster()


def statement_classes() -> Iterator[type[st.Statement]]:
    """All classes of statements that modules define. Excludes the original class that a dataclass with slots has
    replaced, which may still exist."""
    for written in st.Statement.__subclasses__():
        if getattr(sys.modules[written.__module__], written.__name__) is written:
            yield written


def test_every_statement_has_a_kind_that_runs_it() -> None:
    assert {kind.statement for kind in STATEMENTS} == set(statement_classes())
    by_nothing = {kind.statement for kind in STATEMENTS if kind.apply is None and kind.answer is None}
    assert by_nothing == {st.IfNotExists}, "which always means another statement"


def test_the_role_is_checked_again_when_a_statement_before_it_changes_what_a_statement_means() -> None:
    (written,) = parse("SELECT k FROM Later")
    before, after = Catalog(), apply_all("CREATE STREAM Later (k INT) SOURCE 't'")[0]
    read = Permitted.of(2, written, before, "reader")
    assert read.meant is written and read.at(before) is read
    with pytest.raises(Forbidden, match="statement 2 needs the role writer, the token has reader"):
        read.at(after)
    assert isinstance(Permitted.of(2, written, before, "writer").at(after).meant, st.ContinuousQuery)


def test_a_failing_statement_leaves_those_before_it_done(cluster: StatementCluster) -> None:
    with pytest.raises(SqlError, match='line 1, column 48: "nope" not found'):
        cluster.execute("CREATE QUERY a AS SELECT k FROM R(S); DESCRIBE nope; CREATE QUERY b AS SELECT k FROM R(S)")
    assert cluster.store.catalog.get("a") is not None and cluster.store.catalog.get("b") is None


def test_each_statement_sees_what_those_before_it_did(cluster: StatementCluster) -> None:
    results = cluster.execute("PAUSE QUERY q; SHOW QUERIES; RESUME QUERY q; DROP QUERY q; SHOW QUERIES")
    assert [len(result.rows) for result in results] == [0, 1, 0, 0, 0]
    assert results[1].rows[0][2] == "paused" and cluster.topics.deleted == ["dsms.q"]


def test_a_statement_that_holds_a_table_does_not_wait_for_itself(cluster: StatementCluster) -> None:
    """The table gets a new id, but no statement writes it any more, so its readers need no heartbeats."""
    cluster.execute("CREATE STREAM a (k INT, v INT, at BIGINT) ORDER BY at SOURCE 'a' PARTITIONS 1")
    cluster.execute("CREATE TABLE kept (k INT PRIMARY KEY, v INT); INSERT INTO kept SELECT k, v FROM a")
    assert [table.filled_by for table in cluster.store.catalog.tables()] == ["kept_insert"]


def test_a_pause_waits_for_executors_without_a_lock(cluster: StatementCluster) -> None:
    with cluster.waiting_for_executors("PAUSE QUERY q") as pause:
        cluster.execute("CREATE QUERY other AS SELECT k FROM R(S); SHOW QUERIES; SELECT k FROM base")
        assert cluster.query("q").paused
    assert pause.result()[0].message == 'query "q" paused'


def test_the_topic_of_a_dropped_query_is_nobody_s_until_it_is_deleted(cluster: StatementCluster) -> None:
    create = "CREATE QUERY q AS SELECT k FROM R(S)"
    with cluster.waiting_for_executors("DROP QUERY q") as drop:
        with pytest.raises(ExternalError, match='topic "dsms.q" is being deleted; try again'):
            cluster.execute(create)
        cluster.execute("CREATE QUERY other AS SELECT k FROM R(S)")
        assert cluster.topics.deleted == []
    drop.result()
    assert cluster.topics.deleted == ["dsms.q"]
    cluster.execute(create)


def test_a_drop_that_cannot_be_written_deletes_nothing(cluster: StatementCluster) -> None:
    cluster.log.away = True
    with pytest.raises(ExternalError, match="kafka is away"):
        cluster.execute("DROP QUERY q")
    cluster.log.away = False
    assert cluster.topics.deleted == [] and cluster.store.catalog.get("q") is not None


def test_table_statements_fail_while_kafka_is_unavailable(cluster: StatementCluster) -> None:
    cluster.log.away = True
    with pytest.raises(ExternalError, match="kafka is away"):
        cluster.execute("SELECT k FROM base")
    assert cluster.tables.ran == [] and len(cluster.execute("SHOW VIEWS")[0].rows) == 1


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE PYTHON AS $$def f(n, a): return a$$",
        "CREATE OR REPLACE FUNCTION f(a INT) RETURNS INT LANGUAGE PYTHON AS $$def f(n, a): return a$$",
        "CREATE AGGREGATE f(a INT) RETURNS INT LANGUAGE PYTHON HANDLER 'F' AS $$class F: pass$$",
    ],
)
def test_python_functions_need_a_coordinator_that_permits_them(cluster: StatementCluster, sql: str) -> None:
    """Otherwise code is refused even from administrators, and in clusters without tokens."""
    without = StatementRunner(replace(cluster.parts, python=False))
    with pytest.raises(Forbidden, match="accepts no functions or aggregates in Python.*--python"):
        without.execute(f"CREATE QUERY a AS SELECT k FROM R(S); {sql}", ANYBODY)
    runner = StatementRunner(cluster.parts)
    try:
        runner.execute(sql, ANYBODY)
    except SqlError as error:  # the code is examined; its other errors do not matter here
        assert "takes no" not in str(error)


@pytest.mark.parametrize("begin", ["REGISTER SOURCE {} (a INT) FROM t", "CREATE STREAM {} (a INT)"])
def test_a_writer_names_only_registries_that_are_allowed(cluster: StatementCluster, begin: str) -> None:
    runner = StatementRunner(replace(cluster.parts, registry_hosts=RegistryHosts.of("registry:8081")))
    writer = Caller(Principal("ann", "writer"))
    with pytest.raises(Forbidden, match='may not name "evil:80"; allowed: registry:8081'):
        runner.execute(f"{begin.format('x')} FORMAT AVRO REGISTRY 'http://registry:8081@evil'", writer)
    assert cluster.store.catalog.get("x") is None
    runner.execute(f"{begin.format('x')} FORMAT AVRO REGISTRY 'http://registry:8081/a'", writer)
    runner.execute(f"{begin.format('y')} FORMAT AVRO REGISTRY 'http://evil'", ANYBODY)
    assert all(cluster.store.catalog.get(name) is not None for name in "xy")
    cluster.execute(f"{begin.format('z')} FORMAT AVRO REGISTRY 'http://evil'", writer)  # by default any is permitted


def source_of(cluster: StatementCluster) -> Source:
    source = cluster.store.catalog.find("T")
    assert isinstance(source, Source)
    return source


def test_a_record_is_skipped_once_executors_have_stopped_reading_before_it(cluster: StatementCluster) -> None:
    cluster.lanes = {"o4": QueryStatus(offsets={f"{source_of(cluster).id}/0": 7})}
    with cluster.waiting_for_executors("SKIP RECORD OF t PARTITION 0 OFFSET 7") as skip:
        assert (source_of(cluster).skipping, source_of(cluster).skipped) == (cluster.store.catalog.version, {})
        with pytest.raises(UserError, match="is being changed"):
            cluster.execute("SKIP RECORD OF t PARTITION 0 OFFSET 7")
    assert (
        skip.result()[0].message
        == 'record t/0/7 becomes a dead letter of source "T"; reading of its partition continues'
    )
    assert (source_of(cluster).skipping, source_of(cluster).skipped) == (None, {0: (7,)})


@pytest.mark.parametrize(("offset", "message"), [(6, "has already been read"), (8, "is not the next record")])
def test_a_statement_that_skips_no_record_lets_its_source_be_read_again(
    cluster: StatementCluster, offset: int, message: str
) -> None:
    cluster.lanes = {"o4": QueryStatus(offsets={f"{source_of(cluster).id}/0": 7})}
    with pytest.raises(UserError, match=message):
        cluster.execute(f"SKIP RECORD OF t PARTITION 0 OFFSET {offset}")
    assert (source_of(cluster).skipping, source_of(cluster).skipped) == (None, {})


def test_no_record_is_skipped_while_an_executor_does_not_follow() -> None:
    cluster = StatementCluster(halt_s=0.2)
    cluster.lanes = {"o4": QueryStatus(offsets={f"{source_of(cluster).id}/0": 7})}
    with cluster.executor_stuck(), pytest.raises(ExternalError, match="executors did not follow"):
        cluster.execute("SKIP RECORD OF t PARTITION 0 OFFSET 7")
    assert (source_of(cluster).skipping, source_of(cluster).skipped) == (None, {})
