"""Two coordinators that both believe they lead: the catalog accepts only the changes of the newer one."""

import pytest

from connectors.alarms import Alarms
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.names import internal_topic, transactional_id
from connectors.kafka.client.topics import COMPACTED_SOON, ensure_topic
from connectors.kafka.records.epoch_writer import EpochWriter
from connectors.kafka.records.pieces import decided_ranges
from dsms.coordinator.catalog.catalog_log import CatalogLog
from dsms.model.catalog import Catalog
from dsms.model.objects import Stream
from operators.core.errors import ExternalError, Fenced

pytestmark = pytest.mark.services


@pytest.fixture
def settings(kafka: str, unique: str) -> KafkaSettings:
    settings = KafkaSettings(kafka)
    ensure_topic(settings.admin(), internal_topic(unique, "catalog"), 1, COMPACTED_SOON)
    return settings


def catalog(*names: str) -> Catalog:
    objects = {
        name: Stream(name=name, id=f"o{number}", sql=f"CREATE STREAM {name}", source="s", keys=())
        for number, name in enumerate(names, 1)
    }
    return Catalog(len(names), len(names), objects)


def names(log: CatalogLog) -> set[str]:
    return set(log.read()[0].objects)


def test_older_coordinator_that_believes_it_leads_is_fenced(settings: KafkaSettings, unique: str):
    older = CatalogLog(settings, unique, Alarms())
    older.write(Catalog(), catalog("a"))
    newer = CatalogLog(settings, unique, Alarms())
    with pytest.raises(Fenced):
        older.write(catalog("a"), catalog("a", "old"))
    assert older.replaced
    newer.write(catalog("a"), catalog("a", "new"))
    assert names(newer) == {"a", "new"}


def test_older_coordinator_with_a_write_in_doubt_does_not_fence_the_newer_one(settings: KafkaSettings, unique: str):
    """Otherwise it would create a new producer, which would fence the newer coordinator."""
    older = CatalogLog(settings, unique, Alarms())
    older.in_doubt = True
    newer = CatalogLog(settings, unique, Alarms())
    decided_ranges(settings.admin(), internal_topic(unique, "catalog"))  # from now on every reader sees the newer term
    with pytest.raises(Fenced):
        older.read()
    with pytest.raises(Fenced):
        older.write(Catalog(), catalog("old"))
    newer.write(Catalog(), catalog("new"))
    assert names(newer) == {"new"}


def test_newer_coordinator_continues_after_an_older_one_fenced_it(settings: KafkaSettings, unique: str):
    """The older one creates its producer after the newer one has read the log and before it writes its term."""
    newer = CatalogLog(settings, unique, Alarms())
    EpochWriter(settings, transactional_id(unique, "catalog"))
    with pytest.raises(ExternalError) as refused:
        newer.write(Catalog(), catalog("a"))
    assert not isinstance(refused.value, Fenced)
    assert not newer.replaced
    assert names(newer) == set()
    newer.write(Catalog(), catalog("a"))
    assert names(newer) == {"a"}


def test_terms_survive_compaction_and_restarts(settings: KafkaSettings, unique: str):
    for number in range(1, 4):
        log = CatalogLog(settings, unique, Alarms())
        log.write(catalog(*"abc"[: number - 1]), catalog(*"abc"[:number]))
    assert names(CatalogLog(settings, unique, Alarms())) == {"a", "b", "c"}
    with pytest.raises(Fenced):
        log.write(catalog(*"abc"), catalog(*"abcd"))
