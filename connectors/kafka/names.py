"""Names of topics, headers and transactional ids."""

from __future__ import annotations

#: The operation of a tagged record: `u` or `-`; absent means `+`.
OP_HEADER = "dsms-op"
#: The instant of a record, as decimal text.
TS_HEADER = "dsms-ts"
#: On a record without a value: no later record of the partition is below this instant.
HEARTBEAT_HEADER = "dsms-heartbeat"
#: Why a record is a dead letter.
ERROR_HEADER = "dsms-error"
#: The id of the source that a dead letter is of: another source of its name is another one.
SOURCE_ID_HEADER = "dsms-source-id"
#: On a record without a value in a topic of dead letters: the refused record of its key was written again to its topic,
#: which has this id.
REPLAYED_HEADER = "dsms-replayed"
#: On such a record of the source: the partition and offset at which it was refused.
REPLAY_HEADER = "dsms-replay-of"
#: Who wrote a record of an internal topic: cluster and writer.
BY_HEADER = "dsms-by"
#: Purposes of internal topics: objects, how far results are published, heartbeats of idle sources, and what was shed.
CATALOG, PROGRESS, HEARTBEATS, SHED = "catalog", "progress", "heartbeats", "shed"


def internal_topic(cluster: str, purpose: str) -> str:
    """The name of a topic that only the system writes.

    >>> internal_topic("main", "progress")
    '_dsms.main.progress'
    """
    return f"_dsms.{cluster}.{purpose}"


def dead_letter_topic(source: str) -> str:
    """The topic of a source's dead letters."""
    return f"dsms.{source}.dead-letters"


def transactional_id(cluster: str, fragment: str) -> str:
    """The id by which a newer owner of a fragment fences the older."""
    return f"dsms.{cluster}.{fragment}"
