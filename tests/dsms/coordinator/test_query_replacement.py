"""A replacement waits for executors without a lock: other statements run meanwhile, and no statement is lost."""

from __future__ import annotations

import re

import pytest

from dsms.coordinator.statements.query_replacement import clean_up_replacements
from dsms.coordinator.statements.replacements import BeingReplaced
from dsms.model.catalog import Catalog
from dsms.model.objects import Query
from operators.core.errors import ExternalError, UserError
from tests.support.statement_cluster import StatementCluster

REPLACE_QUERY = "CREATE OR REPLACE QUERY q AS SELECT k, v FROM R(S) WHERE v > 2"
REPLACE_VIEW = "CREATE OR REPLACE VIEW base AS SELECT k, v FROM R(S) WHERE v > 3"
READER = "CREATE QUERY reader AS SELECT k, v FROM base WHERE k > 0"


def halted(catalog: Catalog) -> set[str]:
    return {query.name for query in catalog.queries() if query.halted}


@pytest.fixture
def cluster() -> StatementCluster:
    return StatementCluster()


def test_reads_and_other_statements_continue_while_a_halt_waits(cluster: StatementCluster) -> None:
    with cluster.waiting_for_executors(REPLACE_QUERY) as replacement:
        assert halted(cluster.store.catalog) == {"q"}
        assert len(cluster.execute("SHOW QUERIES")[0].rows) == 1
        assert cluster.store.settled_version() == cluster.store.catalog.version
        cluster.execute("SELECT k FROM base; CREATE QUERY other AS SELECT k FROM R(S); ALTER QUERY q SET (weight = 3)")
        cluster.execute("DESCRIBE other; EXPLAIN base")
        assert cluster.tables.ran == ["SELECT k FROM base"]
    (result,) = replacement.result()
    assert result.message.startswith('query "q" replaced')
    assert (cluster.query("q").select, cluster.query("q").weight) == ("SELECT k, v FROM R(S) WHERE v > 2", 3.0)
    assert halted(cluster.store.catalog) == set() and cluster.log.catalog == cluster.store.catalog


def test_published_instant_is_read_after_executors_have_halted(cluster: StatementCluster) -> None:
    with cluster.waiting_for_executors(REPLACE_QUERY) as replacement:
        cluster.log_ends.instants[cluster.query("q").id] = 41
    replacement.result()
    assert cluster.query("q").since == 41


def test_a_query_is_replaced_by_one_statement_after_the_other(cluster: StatementCluster) -> None:
    with cluster.waiting_for_executors(REPLACE_QUERY) as replacement:
        second = cluster.start("CREATE OR REPLACE QUERY q AS SELECT k, v FROM R(S) WHERE v > 5")
        cluster.execute("CREATE QUERY other AS SELECT k FROM R(S)")
        assert second.running and halted(cluster.store.catalog) == {"q"}
    replacement.result()
    second.result()
    written = [after.find("q").select for _, after in cluster.log.written if after.get("q")]
    assert written[-1].endswith("v > 5") and any(select.endswith("v > 2") for select in written)


def test_second_replacement_fails_if_the_first_does_not_end() -> None:
    cluster = StatementCluster(halt_s=0.05)
    before = cluster.store.catalog
    cluster.parts.replacements.claim([cluster.query("q")])
    with pytest.raises(BeingReplaced, match='query "q" is being replaced; try again'):
        cluster.execute(REPLACE_QUERY)
    assert cluster.store.catalog is before


def test_no_source_is_made_over_a_topic_that_is_being_deleted(cluster: StatementCluster) -> None:
    register = 'REGISTER SOURCE again (k INT) FROM "dsms.q" PARTITIONS 1'
    with (
        cluster.waiting_for_executors("DROP QUERY q") as drop,
        pytest.raises(ExternalError, match='topic "dsms.q" is being deleted; try again'),
    ):
        cluster.execute(register)
    drop.result()
    cluster.execute(register)


def test_two_queries_are_replaced_side_by_side(cluster: StatementCluster) -> None:
    with (
        cluster.waiting_for_executors(REPLACE_QUERY) as first,
        cluster.waiting_for_executors(REPLACE_VIEW) as second,
    ):
        assert halted(cluster.store.catalog) == {"q", "base"}
    first.result()
    second.result()
    assert cluster.query("q").select.endswith("v > 2") and cluster.query("base").select.endswith("v > 3")


def test_a_query_that_is_dropped_meanwhile_is_not_made_again(cluster: StatementCluster) -> None:
    cluster.execute(READER)
    others = {name: item for name, item in cluster.store.catalog.objects.items() if name not in ("base", "reader")}
    with cluster.waiting_for_executors(REPLACE_VIEW) as replacement:
        drop = cluster.start("DROP VIEW base CASCADE")
        cluster.await_gone("base")
    drop.result()
    with pytest.raises(UserError, match='"base" was dropped while the statement waited; the statement changed nothing'):
        replacement.result()
    assert cluster.store.catalog.objects == others == cluster.log.catalog.objects
    assert sorted(cluster.topics.deleted) == ["dsms.base", "dsms.reader"]


def test_object_created_meanwhile_under_the_name_is_unchanged(cluster: StatementCluster) -> None:
    with cluster.waiting_for_executors(REPLACE_QUERY) as replacement:
        drop = cluster.start("DROP QUERY q")
        cluster.await_gone("q")
        cluster.execute("CREATE QUERY q WITH (topic = 'mine') AS SELECT k FROM R(S)")
        made = cluster.query("q")
    drop.result()
    with pytest.raises(UserError, match="was dropped while the statement waited"):
        replacement.result()
    assert cluster.query("q") == made and not made.halted


def test_a_reader_that_is_dropped_meanwhile_is_left_out(cluster: StatementCluster) -> None:
    cluster.execute(READER)
    with cluster.waiting_for_executors(REPLACE_VIEW) as replacement:
        drop = cluster.start("DROP QUERY reader")
        cluster.await_gone("reader")
    drop.result()
    replacement.result()
    assert cluster.query("base").select.endswith("v > 3") and cluster.store.catalog.get("reader") is None


def test_a_reader_that_is_made_meanwhile_is_halted_and_replaced_too(cluster: StatementCluster) -> None:
    with cluster.waiting_for_executors(REPLACE_VIEW) as replacement:
        cluster.execute(READER)
        before = cluster.query("reader")
        assert halted(cluster.store.catalog) == {"base"}
    replacement.result()
    assert cluster.query("reader").id != before.id
    halts = [halted(after) for _, after in cluster.log.written]
    assert {"base", "reader"} in halts and halts[-1] == set()


def test_replacement_changes_nothing_if_executors_do_not_halt_in_time() -> None:
    cluster = StatementCluster(halt_s=0.05)
    before = cluster.store.catalog.objects
    with cluster.executor_stuck(), pytest.raises(ExternalError, match="did not halt the query in time; try again"):
        cluster.execute(REPLACE_QUERY)
    assert cluster.store.catalog.objects == before
    cluster.execute(REPLACE_QUERY)
    assert cluster.query("q").select.endswith("v > 2")


def test_a_change_that_is_refused_halts_nothing(cluster: StatementCluster) -> None:
    before = cluster.store.catalog
    with pytest.raises(
        UserError,
        match=re.escape('query "q" cannot be replaced: the columns would change from (k int32, v int32)'),
    ):
        cluster.execute("CREATE OR REPLACE QUERY q AS SELECT k FROM R(S)")
    with pytest.raises(UserError, match='"q" is a query, not a view'):
        cluster.execute("CREATE OR REPLACE VIEW q AS SELECT k, v FROM R(S)")
    assert cluster.store.catalog is before
    (result,) = cluster.execute("CREATE OR REPLACE QUERY q AS SELECT k, v FROM R(S) WHERE v > 1")
    assert "unchanged" in result.message and cluster.store.catalog is before


def test_halted_queries_are_resumed_later(cluster: StatementCluster) -> None:
    with cluster.waiting_for_executors(REPLACE_QUERY) as replacement:
        clean_up_replacements(cluster.parts, cluster.alive())
        assert halted(cluster.store.catalog) == {"q"}
        cluster.log.away = True
    with pytest.raises(ExternalError, match="kafka is away"):
        replacement.result()
    assert halted(cluster.store.catalog) == {"q"}
    cluster.log.away = False
    clean_up_replacements(cluster.parts, {})
    assert halted(cluster.store.catalog) == set() and cluster.query("q").select.endswith("v > 1")


@pytest.mark.parametrize(("outcome", "select"), [("kept", "v > 2"), ("lost", "v > 1")])
def test_a_replacement_in_doubt_holds_if_the_log_has_it(cluster: StatementCluster, outcome: str, select: str) -> None:
    with cluster.waiting_for_executors(REPLACE_QUERY) as replacement:
        cluster.log.outcome = outcome  # type: ignore[assignment]
    with pytest.raises(ExternalError, match="timed out"):
        replacement.result()
    query = cluster.query("q")
    assert query.select.endswith(select) and not query.halted
    assert isinstance(cluster.log.catalog.find("q"), Query) and cluster.log.catalog == cluster.store.catalog
