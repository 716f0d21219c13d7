"""Compares the settings of a topic with the wanted ones, and restores them."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from connectors.kafka.client.errors import translated
from connectors.kafka.client.topics import TIMEOUT_S

#: Settings that may be greater than the wanted value.
_AT_LEAST = ("max.message.bytes",)


def wrong_settings(admin: AdminClient, topic: str, wanted: Mapping[str, str]) -> dict[str, str]:
    """The settings of a topic that differ from the wanted ones, with their present values."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    with translated(f'reading the settings of topic "{topic}"'):
        entries = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    present = {name: str(entries[name].value) for name in wanted if name in entries}
    return {name: value for name, value in present.items() if not _fits(name, value, wanted[name])}


def restore_settings(admin: AdminClient, topic: str, wanted: Mapping[str, str]) -> None:
    """Sets some settings of a topic; the others stay."""
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in wanted.items()]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    with translated(f'setting {", ".join(wanted)} of topic "{topic}"'):
        admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)


def _fits(name: str, value: str, wanted: str) -> bool:
    return int(value) >= int(wanted) if name in _AT_LEAST else value == wanted
