"""Columns are added to a source and a table under load, with kill -9 of the coordinator and an executor. Earlier
queries publish the same as without the change, later ones the same as if the columns were there from the beginning."""

import json
import threading
from collections.abc import Iterator
from contextlib import suppress

import httpx
import pytest

from dsms.local.waiting import wait_until
from integration.cluster import Cluster, Refused, kill_9, running
from integration.kafka_log import Input, changes, letters, write
from integration.kafka_topics import create_topic
from integration.test_query_life import CHUNK, Feed, await_results
from integration.workload import END, PARTITIONS, SLACK

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]
OBJECTS = """
    REGISTER SOURCE {p}src (k VARCHAR NOT NULL, v INT{d}) FROM "{topic}" SLACK {slack} IDLE NEVER;
    CREATE STREAM {p}keyed OVER {p}src KEY k;
    CREATE STREAM {p}all OVER {p}src KEY NULL;
    CREATE TABLE {p}prices (k VARCHAR PRIMARY KEY, price INT{tax});
    INSERT INTO {p}prices (k, price) VALUES ('k1', 10), ('k2', 20)
"""
EARLIER = """
    CREATE VIEW {p}hot AS SELECT k, v FROM R({p}keyed) WHERE v > 50;
    CREATE VIEW {p}everything AS SELECT * FROM R({p}keyed);
    CREATE VIEW {p}sums AS SELECT k, SUM(v) AS total, COUNT(*) AS n FROM R({p}all) GROUP BY k
"""
LATER = """
    CREATE VIEW {p}ratio AS SELECT k, v / d AS q FROM R({p}keyed);
    CREATE VIEW {p}wide AS SELECT * FROM R({p}keyed);
    CREATE VIEW {p}totals AS SELECT d, COUNT(*) AS n FROM R({p}all) GROUP BY d
"""
BOTH = "CREATE VIEW {p}both AS SELECT e.k, e.v, w.d FROM {p}everything AS e JOIN {p}wide AS w ON e.k = w.k"
PRICES = "CREATE QUERY {p}{name} AS SELECT * FROM {p}prices"
ALTER = """
    ALTER SOURCE {p}src ADD COLUMN IF NOT EXISTS d INT, ADD COLUMN IF NOT EXISTS unused INT;
    ALTER TABLE {p}prices ADD COLUMN IF NOT EXISTS tax INT;
    ALTER SOURCE {p}src DROP COLUMN IF EXISTS unused
"""
FIRST, LAST = ("hot", "everything", "sums"), ("ratio", "wide", "totals")
#: Records that only the version with the column refuses.
WRONG = b'{"k": "k3", "v": 77, "d": "many"}'


@pytest.fixture(scope="module")
def cluster(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(kafka, redis_url, tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.start_executor()
        yield cluster


def test_columns_are_added_under_load(cluster: Cluster, unique: str) -> None:
    p, without, with_all, topic = f"{unique}b", f"{unique}a", f"{unique}c", f"{unique}.in"
    create_topic(cluster.kafka, topic, partitions=PARTITIONS)
    for prefix, d, tax in ((p, "", ""), (without, "", ""), (with_all, ", d INT", ", tax INT")):
        cluster.sql(OBJECTS.format(p=prefix, topic=topic, slack=SLACK, d=d, tax=tax))
    for prefix in (p, without):
        cluster.sql(EARLIER.format(p=prefix) + ";" + PRICES.format(p=prefix, name="dear"))
    feed = Feed(cluster.kafka, topic)
    await_results(cluster, f"{p}hot")
    write(cluster.kafka, topic, [Input(WRONG, later(feed), 0)])
    alter_and_kill(cluster, p)
    feed.await_more()
    cluster.coordinator.start()
    cluster.sql(ALTER.format(p=p))  # the statement was lost, or has taken effect
    cluster.sql(LATER.format(p=p) + ";" + BOTH.format(p=p) + ";" + PRICES.format(p=p, name="taxed"))
    write(cluster.kafka, topic, [Input(WRONG, later(feed), 1)])
    await_results(cluster, f"{p}wide")
    kill_9(cluster.executors[-1])
    cluster.start_executor()
    cluster.sql(LATER.format(p=with_all) + ";" + PRICES.format(p=with_all, name="taxed"))
    for prefix, columns, values in ((p, "k, price, tax", "('k3', 30, 6)"), (without, "k, price", "('k3', 30)")):
        cluster.sql(f"INSERT INTO {prefix}prices ({columns}) VALUES {values}")
    cluster.sql(f"UPDATE {p}prices SET tax = 4 WHERE k = 'k2'")
    feed.await_more()
    feed.finish()
    cluster.await_frontier([f"dsms.{each}{name}" for each in (p, without) for name in FIRST], END)
    cluster.await_frontier([f"dsms.{each}{name}" for each in (p, with_all) for name in LAST], END)
    cluster.await_frontier(f"dsms.{p}both", END)

    for name in FIRST:
        assert changes(cluster.kafka, f"dsms.{p}{name}") == changes(cluster.kafka, f"dsms.{without}{name}"), name
    for name in LAST:
        assert changes(cluster.kafka, f"dsms.{p}{name}") == changes(cluster.kafka, f"dsms.{with_all}{name}"), name
    everything, wide, both = (last_rows(cluster, f"{p}{name}") for name in ("everything", "wide", "both"))
    joined = [row | {"d": other["d"]} for row in everything for other in wide if row["k"] == other["k"]]
    assert both == joined
    assert refused(cluster, p) == refused(cluster, without) | refused(cluster, with_all)
    assert len(refused(cluster, with_all) - refused(cluster, without)) >= 2
    assert_listed_once(cluster, p)
    assert_table(cluster, p)
    cluster.sql(f"ALTER TABLE {p}prices ADD COLUMN vat INT DEFAULT 19; INSERT INTO {p}prices (k) VALUES ('k4')")
    (selected,) = cluster.sql(f"SELECT k, vat FROM {p}prices ORDER BY k")
    assert selected["rows"] == [[k, 19] for k in ("k1", "k2", "k3", "k4")]
    shown = cluster.sql(f"DESCRIBE {p}everything; DESCRIBE {p}src")
    assert f'reads source "{p}src" with the columns that it had before ALTER: k, v' in str(shown)


def later(feed: Feed) -> int:
    """An instant that the feed has not reached yet."""
    return (feed.sent + 6) * CHUNK


def alter_and_kill(cluster: Cluster, prefix: str) -> None:
    """Kills the coordinator while it runs the statements."""
    altering = threading.Thread(target=_altered, args=(cluster, prefix))
    altering.start()
    wait_until(lambda: not altering.is_alive(), 0.05)
    kill_9(cluster.coordinator)
    altering.join()


def _altered(cluster: Cluster, prefix: str) -> None:
    with suppress(httpx.HTTPError, Refused):  # the coordinator may end at any moment
        cluster.sql(ALTER.format(p=prefix))


def last_rows(cluster: Cluster, name: str) -> list[dict[str, object]]:
    last = {change.key: change.value for change in changes(cluster.kafka, f"dsms.{name}")}
    return sorted((json.loads(value) for value in last.values() if value is not None), key=lambda row: row["k"])


def refused(cluster: Cluster, prefix: str) -> set[tuple[str, str]]:
    """The positions of the records that the source itself has refused."""
    headers = [dict(letter.headers) for letter in letters(cluster.kafka, f"{prefix}src")]
    return {(each["dsms-partition"], each["dsms-offset"]) for each in headers if "dsms-query" not in each}


def assert_listed_once(cluster: Cluster, prefix: str) -> None:
    """Asserts that the list of dead letters has no record twice, although both versions have refused it."""
    letters_listed = cluster.get(f"sources/{prefix}src/dead-letters?limit=1000")
    listed = [(str(each["partition"]), str(each["offset"])) for each in letters_listed if each["query"] is None]
    assert len(listed) == len(set(listed)) > 0
    assert set(listed) <= refused(cluster, prefix)


def assert_table(cluster: Cluster, prefix: str) -> None:
    """Asserts that both queries over the table have their rows, and a one-time SELECT those with the new column."""
    rows = [("k1", 10, None), ("k2", 20, 4), ("k3", 30, 6)]
    taxed = [{"k": k, "price": price, "tax": tax} for k, price, tax in rows]
    dear = [{"k": k, "price": price} for k, price, _ in rows]
    assert wait_until(lambda: last_rows(cluster, f"{prefix}taxed") == taxed, 120)
    assert wait_until(lambda: last_rows(cluster, f"{prefix}dear") == dear, 120)
    (selected,) = cluster.sql(f"SELECT * FROM {prefix}prices ORDER BY k")
    assert selected["rows"] == [list(row) for row in rows]
