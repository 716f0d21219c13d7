"""Rules of tokens with a real coordinator: a user can neither read nor write rows, records and dead letters of
others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dsms.model.tokens import entry, new_token
from integration.cluster import Cluster, Refused, running
from integration.kafka_topics import TopicFactory

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]
ROOT, ROOT_ENTRY = new_token("root", "administrator")
ANN, ANN_ENTRY = new_token(
    "ann", "writer", read=("rooms", "s"), write=("ann_*",), read_topics=("none",), write_topics=("dsms.ann_*",)
)


@pytest.fixture(scope="module")
def cluster(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("rights")
    tokens = directory / "tokens.toml"
    tokens.write_text(f"{entry(ROOT_ENTRY)}\n{entry(ANN_ENTRY)}\n")
    with running(kafka, redis_url, directory, environment={"DSMS_TOKENS": str(tokens)}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def objects(cluster: Cluster) -> None:
    cluster.sql("CREATE TABLE pins (k INT PRIMARY KEY, pin INT); INSERT INTO pins VALUES (1, 4711)", ROOT)
    cluster.sql("CREATE TABLE rooms (k INT PRIMARY KEY, t INT); INSERT INTO rooms VALUES (1, 20)", ROOT)
    cluster.sql("CREATE TABLE ann_notes (k INT PRIMARY KEY, t INT)", ANN)


@pytest.mark.usefixtures("objects")
@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("SELECT * FROM pins", 'read "pins"'),
        ("SELECT * FROM rooms WHERE k = (SELECT MAX(pin) FROM pins)", 'read "pins"'),
        ("WITH a AS (SELECT * FROM pins) SELECT * FROM a", 'read "pins"'),
        ("INSERT INTO ann_notes SELECT k, pin FROM pins", 'read "pins"'),
        ("UPDATE ann_notes SET t = (SELECT MAX(pin) FROM pins)", 'read "pins"'),
        ("DELETE FROM ann_notes WHERE k IN (SELECT k FROM pins)", 'read "pins"'),
        ("INSERT INTO rooms VALUES (2, 3)", 'write topic "dsms.rooms"'),
        ("DELETE FROM rooms", 'write topic "dsms.rooms"'),
        ("DROP TABLE rooms", 'write "rooms"'),
    ],
)
def test_rows_of_other_users_can_be_neither_read_nor_written(cluster: Cluster, sql: str, what: str) -> None:
    with pytest.raises(Refused, match=f"may not {what}") as refused:
        cluster.sql(sql, ANN)
    assert refused.value.status == 403 and "4711" not in str(refused.value)


@pytest.mark.usefixtures("objects")
def test_common_table_does_not_hide_objects(cluster: Cluster) -> None:
    """Within its own definition, the name of a common table expression still denotes the object of that name."""
    with pytest.raises(Refused) as refused:
        cluster.sql("WITH pins AS (SELECT * FROM pins) SELECT * FROM pins", ANN)
    assert "4711" not in str(refused.value)


@pytest.mark.usefixtures("objects")
def test_own_rows_can_be_read_and_written(cluster: Cluster) -> None:
    cluster.sql("INSERT INTO ann_notes SELECT k, t FROM rooms", ANN)
    assert cluster.sql("SELECT k, t FROM ann_notes", ANN)[0]["rows"] == [[1, 20]]
    shown = cluster.sql("SHOW TABLES", ANN)[0]["rows"]
    assert [row[0] for row in shown] == ["rooms", "ann_notes"]


@pytest.mark.usefixtures("objects")
def test_records_and_dead_letters(cluster: Cluster, topic: TopicFactory) -> None:
    name = topic("records")
    cluster.sql(f'REGISTER SOURCE s (k INT) FROM "{name}"; REGISTER SOURCE other (k INT) FROM "{name}"', ROOT)
    published = cluster.answered("POST", "sources/s/records", ANN, json={"k": 1})
    assert published.status_code == 403 and "write topic" in published.json()["error"]["message"]
    assert cluster.answered("POST", "sources/s/records", ROOT, json={"k": 1}).status_code == 200
    assert cluster.answered("GET", "sources/s/dead-letters", ANN).status_code == 200
    for path in ("sources/other/dead-letters", "queries/pins/changes", "queries/pins/relation", "sources/other"):
        assert cluster.answered("GET", path, ANN, headers={"Accept": "text/event-stream"}).status_code == 403
