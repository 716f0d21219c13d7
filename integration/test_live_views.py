"""Relations of a keyed view that an executor writes all the time: each read has an answer, exact at its instant."""

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.topics import delete_topic, ensure_topic, last_times, topic_ids
from dsms.coordinator.results.missing_instant import NoFinalInstant
from dsms.coordinator.tables.table_statements import TableStatements
from dsms.model.limits import Limits
from dsms.model.objects import Query
from dsms.model.principal import ANYBODY, AccessRules, Forbidden, Principal
from dsms.model.statement_result import EncodedRows
from integration.published_views import Change, PublishedViews, changed, published_views, reading, selected
from operators.core.errors import UserError

SCRIPT = """CREATE STREAM s (k INT, v INT) SOURCE 's';
CREATE VIEW best WITH (partitions = 2) AS SELECT k, max(v) AS v FROM s GROUP BY k;
CREATE VIEW other AS SELECT k, max(v) AS v FROM s GROUP BY k"""
KEYS = 3
#: The machine may be busy.
PATIENT = Limits(select_seconds=60)


def change(instant: int, key: int) -> Change:
    return (instant, "+", {"k": key}, {"k": key, "v": instant})


def rows_at(instant: int) -> list[list[int]]:
    """At instant n, the row of key n mod 3 gets the value n."""
    last = {at % KEYS: at for at in range(1, instant + 1)}
    return [[key, at] for key, at in sorted(last.items())]


@contextmanager
def written(views: PublishedViews, from_: int) -> Iterator[None]:
    """Publishes an instant of both views in each epoch, one epoch after another, while the block runs."""
    ended = threading.Event()

    def write() -> None:
        for at in range(from_, 1_000_000):
            if ended.wait(0.005):
                return
            publish(views, at)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def publish(views: PublishedViews, at: int) -> None:
    views.publish({"best": at + 1}, {"best": [change(at, at % KEYS)]}, partition=at % KEYS % 2)
    views.publish({"other": at + 1}, {"other": [change(at, at % KEYS)]})


@pytest.fixture
def views(kafka: str) -> Iterator[PublishedViews]:
    with published_views(kafka, f"c{uuid.uuid4().hex[:10]}", SCRIPT) as made:
        for at in range(1, 10):
            publish(made, at)
        yield made


def test_current_rows_while_the_view_is_written(views: PublishedViews) -> None:
    with reading(views) as tables, written(views, 10):
        last = 0
        for _ in range(30):
            found = tables.relation("best", None, 100)
            assert sorted(map(list, found.rows)) == rows_at(found.instant)
            assert found.instant >= last
            last = found.instant


def test_a_select_over_a_view_does_not_wait_for_statements_that_write_tables(views: PublishedViews) -> None:
    with reading(views, PATIENT) as tables, tables._running:
        assert selected(tables, "SELECT * FROM best ORDER BY k") == rows_at(9)
        assert sorted(map(list, tables.relation("best", None, 100).rows)) == rows_at(9)


def test_rows_by_key_while_the_view_is_written(views: PublishedViews) -> None:
    with reading(views, PATIENT) as tables, written(views, 10):
        for at in range(20):
            key = at % (KEYS + 1)
            rows = selected(tables, f"SELECT k, v FROM best WHERE k = {key}")
            assert [row[0] for row in rows] == [key][: KEYS - key]
            assert all(row[1] % KEYS == key for row in rows)
        assert [row[0] for row in selected(tables, "SELECT k FROM best WHERE k IN (0, 2, 9) ORDER BY k")] == [0, 2]


def looked_up(tables: TableStatements, sql: str) -> list[list[int]]:
    """The rows of a SELECT that is answered without a process."""
    select = tables.point_select(sql)
    assert select is not None
    result = tables.look_up(select, ANYBODY.principal, threading.Event())
    assert isinstance(result.rows, EncodedRows)
    rows: list[list[int]] = msgspec.json.decode(result.rows.json)
    return rows


def test_point_queries_while_the_view_is_written(views: PublishedViews) -> None:
    with reading(views, PATIENT) as tables, written(views, 10):
        last = [0] * (KEYS + 1)
        for at in range(40):
            key = at % (KEYS + 1)
            rows = looked_up(tables, f"SELECT v, k FROM best WHERE k = {key}")
            assert [row[1] for row in rows] == [key][: KEYS - key]
            assert all(row[0] % KEYS == key and row[0] >= last[key] for row in rows)
            last[key] = rows[0][0] if rows else 0
        both = looked_up(tables, "SELECT * FROM best WHERE k IN (2, 9, 0)")
        assert sorted(key for key, _ in both) == [0, 2]


def test_a_point_query_sees_all_that_was_committed_before_it(views: PublishedViews) -> None:
    with reading(views, PATIENT) as tables:
        for at in range(10, 30):
            publish(views, at)
            assert looked_up(tables, f"SELECT * FROM best WHERE k = {at % KEYS}") == [[at % KEYS, at]]


def test_a_point_query_means_what_its_name_means_in_the_present_catalog(views: PublishedViews) -> None:
    with reading(views, PATIENT) as tables:
        assert looked_up(tables, "SELECT v FROM best WHERE k = 0") == [[9]]
        views.catalog = views.catalog.without(["best"])
        assert tables.point_select("SELECT v FROM best WHERE k = 0") is None


def test_point_queries_over_what_the_caller_may_not_read(views: PublishedViews) -> None:
    with reading(views, PATIENT) as tables, pytest.raises(Forbidden):
        select = tables.point_select("SELECT v FROM best WHERE k = 0")
        assert select is not None
        tables.look_up(select, Principal("ann", "reader", AccessRules.of(read=["other"])), threading.Event())


def test_rows_by_an_index_while_the_view_is_written(views: PublishedViews) -> None:
    views.catalog = views.catalog.with_indexes("best", {"i": ("v",)})
    with reading(views, PATIENT) as tables:
        for at in range(10, 15):
            publish(views, at)
            assert selected(tables, f"SELECT v, k FROM best WHERE v >= {at - 1} ORDER BY v") == [
                [at - 1, (at - 1) % KEYS],
                [at, at % KEYS],
            ]
            assert selected(tables, f"SELECT k FROM best WHERE v = {at}") == [[at % KEYS]]
        with written(views, 30):
            for _ in range(5):
                found = selected(tables, "SELECT v, k FROM best WHERE v BETWEEN 12 AND 1000000")
                assert len(found) == KEYS
                assert all(v % KEYS == k for v, k in found)
        tables.try_keep_indexes(views.catalog.with_indexes("best", {}))


def test_a_view_without_a_final_instant_says_what_it_waits_for(kafka: str) -> None:
    with published_views(kafka, f"c{uuid.uuid4().hex[:10]}", SCRIPT) as made, reading(made, PATIENT) as tables:
        with pytest.raises(NoFinalInstant, match='view "best" has no final instant yet: topic "s" has no records'):
            selected(tables, "SELECT * FROM best")
        publish(made, 1)
        assert selected(tables, "SELECT * FROM best") == [[1, 1]]


def test_last_times(kafka: str) -> None:
    topic, settings = f"t{uuid.uuid4().hex[:10]}", KafkaSettings(kafka)
    ensure_topic(settings.admin(), topic, 2)
    producer = settings.producer()
    producer.produce(topic, b"x", partition=1, timestamp=1_700_000_000_000)
    producer.flush(30)
    assert last_times(settings.admin(), [(topic, 0), (topic, 1)]) == {(topic, 0): None, (topic, 1): 1_700_000_000_000}
    assert last_times(settings.admin(), [(f"no{topic}", 0)]) == {(f"no{topic}", 0): None}


def test_earlier_instants_of_a_complete_view(kafka: str) -> None:
    view = "CREATE COMPLETE VIEW every AS SELECT k, max(v) AS v FROM s GROUP BY k"
    script = f"CREATE STREAM s (k INT, v INT) SOURCE 's'; {view}"
    with published_views(kafka, f"c{uuid.uuid4().hex[:10]}", script) as made, reading(made, PATIENT) as tables:
        for at in range(1, 10):
            made.publish({"every": at + 1}, {"every": [change(at, at % KEYS)]})
        for at in (9, 4, 0, 7, 1):
            assert selected(tables, f"SELECT * FROM every AS OF {at} ORDER BY k") == rows_at(at)
        with pytest.raises(UserError, match="instant 10 is not final yet") as error:
            selected(tables, "SELECT * FROM every AS OF 10")
        assert error.value.hint == '"every" is final up to 9'


def test_earlier_instants_of_a_compacted_view(views: PublishedViews) -> None:
    with reading(views, PATIENT) as tables:
        assert selected(tables, "SELECT * FROM best AS OF 9 ORDER BY k") == rows_at(9)
        for at in (10, 11, 12):
            publish(views, at)
        for at in (12, 9, 11):
            assert selected(tables, f"SELECT * FROM best AS OF {at} ORDER BY k") == rows_at(at)
        with pytest.raises(UserError, match="its topic is compacted") as error:
            selected(tables, "SELECT * FROM best AS OF 3")
        assert error.value.hint == "the earliest instant is 9 now; the topic of CREATE COMPLETE VIEW keeps all changes"


def test_earlier_instants_of_a_table(kafka: str) -> None:
    script = "CREATE TABLE t (k INT PRIMARY KEY, name TEXT)"
    with published_views(kafka, f"c{uuid.uuid4().hex[:10]}", script) as made, reading(made, PATIENT) as tables:
        changed(tables, "INSERT INTO t VALUES (1, 'a')")
        first = tables.relation("t", None, 9).instant
        changed(tables, "UPDATE t SET name = 'b'")
        assert selected(tables, f"SELECT name FROM t AS OF {first}") == [["a"]]
        assert selected(tables, "SELECT name FROM t AS OF now() - INTERVAL '1' DAY") == []
        assert selected(tables, "SELECT name FROM t AS OF now()") == [["b"]]
        with pytest.raises(UserError, match="is not final yet"):
            selected(tables, "SELECT name FROM t AS OF now() + INTERVAL '1' HOUR")


def test_a_view_that_was_dropped_and_created_again(views: PublishedViews, kafka: str) -> None:
    with reading(views, PATIENT) as tables:
        assert sorted(map(list, tables.relation("best", None, 100).rows)) == rows_at(9)
        old = views.catalog.find("best")
        assert isinstance(old, Query)
        delete_topic(KafkaSettings(kafka).admin(), old.topic)
        ensure_topic(KafkaSettings(kafka).admin(), old.topic, old.partitions)
        identity = topic_ids(KafkaSettings(kafka).admin(), [old.topic])[old.topic]
        new = msgspec.structs.replace(old, id="o77", topic_id=identity)
        views.catalog = views.catalog.with_changed(new)
        views.publish({"best": 4}, {"best": [change(3, 5)]})
        assert selected(tables, "SELECT * FROM best") == [[5, 3]]


def test_selects_over_two_views_have_one_instant(views: PublishedViews) -> None:
    with reading(views, PATIENT) as tables, written(views, 10):
        for _ in range(12):
            rows = selected(tables, "SELECT k, a.v, b.v FROM best AS a JOIN other AS b USING (k) ORDER BY k")
            instant = max(at for _, at, _ in rows)
            assert rows == [[key, at, at] for key, at in rows_at(instant)]


def test_readers_at_the_same_time(views: PublishedViews) -> None:
    wrong: list[object] = []

    def read() -> None:
        for _ in range(10):
            found = tables.relation("best", None, 100)
            if sorted(map(list, found.rows)) != rows_at(found.instant):
                wrong.append(found)

    with reading(views, Limits(selects=4)) as tables, written(views, 10):
        readers = [threading.Thread(target=read) for _ in range(4)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
    assert not wrong


def test_a_table_between_statements(kafka: str) -> None:
    script = "CREATE TABLE t (k INT PRIMARY KEY, name TEXT)"
    with published_views(kafka, f"c{uuid.uuid4().hex[:10]}", script) as made, reading(made, PATIENT) as tables:
        changed(tables, "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        first = tables.relation("t", None, 9).instant
        assert selected(tables, "SELECT * FROM t ORDER BY k") == [[1, "a"], [2, "b"], [3, "c"]]
        changed(tables, "UPDATE t SET name = name || '!' WHERE k > 1")
        changed(tables, "DELETE FROM t WHERE k = 3")
        assert selected(tables, "SELECT name FROM t WHERE k = 2") == [["b!"]]
        assert selected(tables, "SELECT name FROM t WHERE k IN (1, 3)") == [["a"]]
        assert selected(tables, "SELECT k FROM t WHERE name = 'b!'") == [[2]]
        assert selected(tables, "SELECT * FROM t ORDER BY k") == [[1, "a"], [2, "b!"]]
        assert sorted(tables.relation("t", first, 9).rows) == [(1, "a"), (2, "b"), (3, "c")]


def test_a_view_with_a_table_that_nobody_has_written_since(kafka: str) -> None:
    script = f"CREATE TABLE names (k INT PRIMARY KEY, name TEXT); {SCRIPT}"
    with published_views(kafka, f"c{uuid.uuid4().hex[:10]}", script) as made, reading(made, PATIENT) as tables:
        changed(tables, "INSERT INTO names VALUES (1, 'one'), (2, 'two')")
        began = tables.relation("names", None, 9).instant
        for later in (1, 2, 3):
            made.publish({"best": began + later + 1}, {"best": [(began + later, "+", {"k": 1}, {"k": 1, "v": later})]})
        asked = "SELECT name, v FROM names JOIN best USING (k)"
        assert selected(tables, asked) == [["one", 3]]
