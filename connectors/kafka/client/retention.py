"""Checks whether a topic keeps its records until they are read and lost state is rebuilt from them."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from connectors.kafka.client.errors import translated
from connectors.kafka.client.topics import TIMEOUT_S

#: The settings that determine which records are removed, and whether by arrival or by their own timestamps.
SETTINGS = ("cleanup.policy", "retention.ms", "retention.bytes", "message.timestamp.type")
_DAY_MS, _HOUR_MS = 86_400_000, 3_600_000


def retention_of(admin: AdminClient, topic: str) -> dict[str, str]:
    """The retention settings of an existing topic."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    with translated(f'reading the settings of topic "{topic}"'):
        entries = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    return {name: str(entries[name].value) for name in SETTINGS if name in entries}


def too_short(settings: Mapping[str, str]) -> str | None:
    """Which records a topic may remove too early; None if it keeps all records for the configured time.

    The system promises to read records with any instant, and to rebuild lost state from them. Retention by arrival time
    permits both for a time that the user chooses. Retention by the records' own timestamps may remove records about the
    past at once.

    >>> week = {"cleanup.policy": "delete", "retention.ms": "604800000", "message.timestamp.type": "CreateTime"}
    >>> too_short(week)
    'it removes records that are 7 days old by their own timestamps (retention.ms = 604800000)'
    >>> too_short({**week, "retention.ms": "-1"}), too_short({**week, "message.timestamp.type": "LogAppendTime"})
    (None, None)
    """
    keeps_ms = int(settings.get("retention.ms", "-1"))
    deletes = "delete" in settings.get("cleanup.policy", "delete")
    if not deletes or keeps_ms < 0 or settings.get("message.timestamp.type") == "LogAppendTime":
        return None
    return f"it removes records that are {_time(keeps_ms)} old by their own timestamps (retention.ms = {keeps_ms})"


#: What to do if a topic removes records too early.
REMEDY = (
    "set retention.ms of the topic to -1, or message.timestamp.type to LogAppendTime if no instants are read from "
    "record timestamps"
)


def _time(milliseconds: int) -> str:
    """A duration in words.

    >>> _time(604800000), _time(86400000), _time(7200000), _time(1500)
    ('7 days', '1 day', '2 hours', '1500 ms')
    """
    for unit, name in ((_DAY_MS, "day"), (_HOUR_MS, "hour")):
        if milliseconds >= unit and milliseconds % unit == 0:
            count = milliseconds // unit
            return f"{count} {name}{'' if count == 1 else 's'}"
    return f"{milliseconds} ms"
