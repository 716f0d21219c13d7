"""The catalog of a copy of a cluster: the same objects and events, with separate topics."""

from __future__ import annotations

import msgspec

from dsms.coordinator.catalog.catalog_records import META, OBJECT, first_entry
from dsms.coordinator.catalog.copied_catalog import Naming, catalog_in, copied_log
from dsms.coordinator.catalog.system_objects import with_system_objects
from dsms.model.catalog import Catalog
from dsms.model.objects import Query, Source, Table
from tests.support.fake_environment import FakeEnvironment, apply_all

SQL = """
    REGISTER SOURCE T (k INT, v INT) FROM t; CREATE STREAM S OVER T KEY k;
    CREATE TABLE Names (k INT PRIMARY KEY, name VARCHAR);
    CREATE STREAMED VIEW V WITH (topic = 'v') AS SELECT k FROM S WHERE v > 1;
"""
REPLACED = "CREATE OR REPLACE STREAMED VIEW V WITH (topic = 'v') AS SELECT k FROM S WHERE v > 2"


class Published(FakeEnvironment):
    def published(self, query: str) -> int | None:
        return 7


def entries() -> dict[bytes, bytes]:
    """The log of a catalog with a replaced query, the system's objects and an event of the schema registry."""
    environment = Published({"t": {0: 3, 1: 0}})
    catalog = apply_all(SQL + REPLACED, environment=environment)[0]
    whole = with_system_objects(catalog, "main", 1)
    objects = {OBJECT + name.encode(): msgspec.json.encode(item) for name, item in whole.objects.items()}
    meta = msgspec.json.encode({"version": 9, "ids": 12, "term": 4})
    return {META: meta, b"registry/1": b"event", **objects}


def copied(naming: Naming) -> Catalog:
    return catalog_in(copied_log(entries(), naming))


def test_objects_keep_their_ids_and_get_topics_of_the_copy() -> None:
    catalog = copied(Naming({"t": "t-mirror"}, "test.", {"t-mirror": "id-9"}))
    source, view = catalog.find("T"), catalog.find("V")
    assert isinstance(source, Source)
    assert isinstance(view, Query)
    assert (source.topic, source.dead_letter_topic, source.topic_id) == ("t-mirror", "test.dsms.T.dead-letters", "id-9")
    assert source.start == {0: 3, 1: 0}
    assert (view.topic, view.topic_id) == ("test.v", None)
    assert {name: item.id for name, item in catalog.objects.items()} == {
        name: item.id for name, item in catalog_in(entries()).objects.items() if not item.id.startswith("d")
    }


def test_former_version_of_a_query_reads_the_topics_of_the_copy() -> None:
    former = copied(Naming({"t": "t-mirror"}, "test.")).find("V").former  # type: ignore[union-attr]
    assert former is not None
    assert [item.topic for item in former.objects if isinstance(item, Source)] == ["t-mirror"]


def test_the_log_of_a_table_is_named_as_a_source_is() -> None:
    table = copied(Naming({"dsms.Names": "names-mirror"}, "test.")).find("Names")
    assert isinstance(table, Table)
    assert table.topic == "names-mirror"


def test_copied_log_keeps_registry_events_and_omits_system_objects() -> None:
    log = copied_log(entries(), Naming({}))
    assert log[b"registry/1"] == b"event"
    assert META not in log
    assert not [key for key in log if b"dsms_" in key]
    assert msgspec.json.decode(first_entry(entries())) == {
        "version": 9,
        "ids": 12,
        "term": 0,
        "dropped_topics": [],
        "comments": {},
        "sinks": [],
        "indexes": {},
        "schemas": {},
    }


def test_without_a_prefix_results_keep_their_topics() -> None:
    view, source = copied(Naming({})).find("V"), copied(Naming({})).find("T")
    assert isinstance(view, Query)
    assert isinstance(source, Source)
    assert (view.topic, source.own_dead_letter_topic, source.dead_letter_topic) == ("v", None, "dsms.T.dead-letters")
