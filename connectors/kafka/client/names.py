"""Names of topics, headers and transactional ids."""

from __future__ import annotations

#: The operation of a tagged record: `u` or `-`; absent means `+`.
OP_HEADER = "dsms-op"
#: The instant of a record, as decimal text.
TS_HEADER = "dsms-ts"
#: On a record without a value: no later record of the partition is below this instant.
HEARTBEAT_HEADER = "dsms-heartbeat"
#: On a dead letter: the reason.
ERROR_HEADER = "dsms-error"
#: The id of the source of a dead letter: a source re-created under the same name has another id.
SOURCE_ID_HEADER = "dsms-source-id"
#: On a record without a value in a dead-letter topic: the refused record that the key names was written to its topic
#: again. The header's value is the id of that topic.
REPLAYED_HEADER = "dsms-replayed"
#: On a replayed record in the source's topic: the partition and offset at which it was refused.
REPLAY_HEADER = "dsms-replay-of"
#: The writer of a record of an internal topic, as "cluster/writer".
BY_HEADER = "dsms-by"
#: Purposes of internal topics: objects, the progress of published results, heartbeats of idle sources, and shed input.
CATALOG, PROGRESS, HEARTBEATS, SHED = "catalog", "progress", "heartbeats", "shed"


def internal_topic(cluster: str, purpose: str) -> str:
    """The name of a topic that only the system writes.

    >>> internal_topic("main", "progress")
    '_dsms.main.progress'
    """
    return f"_dsms.{cluster}.{purpose}"


def transactional_id(cluster: str, fragment: str) -> str:
    """The transactional id of a fragment's owner. Kafka fences an older owner when a newer one uses the same id."""
    return f"dsms.{cluster}.{fragment}"
