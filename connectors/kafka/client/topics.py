"""Looks up topics and the offsets at which their partitions begin and end; creates and deletes topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_exponential

from connectors.kafka.client.config import LARGEST_RECORD
from connectors.kafka.client.errors import topic_refusal, translate, translated
from operators.core.errors import ExternalError, UserError

TIMEOUT_S = 10.0
_LARGEST = "max.message.bytes"
_LARGE = {_LARGEST: str(LARGEST_RECORD)}
COMPACTED = {"cleanup.policy": "compact", **_LARGE}
#: For keyed results. A reader that continues within a minute finds all changes.
COMPACTED_RESULT = {**COMPACTED, "min.compaction.lag.ms": "60000"}
#: For the system's own logs. Kafka compacts them early, which keeps reading a whole log fast.
COMPACTED_SOON = {
    **COMPACTED,
    "segment.bytes": "16777216",
    "segment.ms": "600000",
    "min.cleanable.dirty.ratio": "0.1",
}
#: For topics of sources. Kafka's default removes records whose own timestamps are seven days old. So it removes records
#: about the past at once, and lost state could not be rebuilt from them.
SOURCE = {"retention.ms": "-1", "retention.bytes": "-1"}
#: For topics whose records are kept for ever, because replays need them.
KEPT = {**SOURCE, **_LARGE}

#: Errors of a client whose metadata is outdated, for example just after a topic was created or a broker returned.
_MOVING = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
)
#: The id that brokers without topic ids return for each topic.
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
#: The name of a topic, and a partition number.
Partition = tuple[str, int]


def partitions_of(admin: AdminClient, topic: str) -> list[int]:
    """The partitions of a topic; [] if it does not exist."""
    with translated(f'looking up topic "{topic}"'):
        metadata = admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
    if metadata.error is not None:
        if metadata.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return []
        raise translate(metadata.error, f'looking up topic "{topic}"')
    return sorted(metadata.partitions)


def partition_counts(admin: AdminClient) -> dict[str, int]:
    """The number of partitions of each topic."""
    with translated("looking for topics"):
        topics = admin.list_topics(timeout=TIMEOUT_S).topics
    return {name: len(metadata.partitions) for name, metadata in topics.items() if metadata.error is None}


def topic_ids(admin: AdminClient, topics: Iterable[str]) -> dict[str, str]:
    """The ids of topics; a re-created topic has another id. Unknown topics are left out, and all topics if the brokers
    have no topic ids.
    """
    return {name: topic_id for name, topic_id in _described_ids(admin, topics).items() if topic_id != _NO_ID}


def _described_ids(admin: AdminClient, topics: Iterable[str]) -> dict[str, str]:
    """The ids of the topics that the broker which is asked knows; `_NO_ID` if it has no topic ids."""
    names = sorted(set(topics))
    if not names:
        return {}
    with translated("asking for the ids of topics"):
        futures = admin.describe_topics(TopicCollection(names), request_timeout=TIMEOUT_S)
    ids: dict[str, str] = {}
    for name, future in futures.items():
        try:
            ids[name] = str(future.result().topic_id)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                refused = topic_refusal(name, error.args[0])
                raise refused or translate(error.args[0], f'asking for the id of topic "{name}"') from error
    return ids


def ensure_topic(admin: AdminClient, topic: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
    """Creates a topic unless it exists, and waits until the brokers know it."""
    future = admin.create_topics([NewTopic(topic, partitions, config=dict(config or {}))])[topic]
    try:
        future.result(TIMEOUT_S)
        _await_leaders(admin, topic, partitions)
    except TimeoutError as error:
        raise ExternalError(f'kafka did not answer while creating topic "{topic}"', retryable=True) from error
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return _await_known(admin, topic)
        if error.args[0].code() == KafkaError.TOPIC_EXCEPTION:
            raise UserError(
                f'"{topic}" is not a valid topic name', hint="use letters, digits, '.', '_' and '-'"
            ) from error
        raise translate(error.args[0], f'creating topic "{topic}"') from error


def admit_large_records(admin: AdminClient, topic: str) -> None:
    """Raises the maximum record size of an existing topic to LARGEST_RECORD; changes nothing else."""
    if int(_settings_of(admin, topic)[_LARGEST].value or 0) >= LARGEST_RECORD:
        return
    entry = ConfigEntry(_LARGEST, str(LARGEST_RECORD), incremental_operation=AlterConfigOpType.SET)
    larger = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    with translated(f'setting {_LARGEST} of topic "{topic}" to {LARGEST_RECORD}'):
        admin.incremental_alter_configs([larger])[larger].result(TIMEOUT_S)


_until_it_holds = retry(
    retry=retry_if_exception_type(ExternalError),
    wait=wait_exponential(0.02, max=0.5),
    stop=stop_after_delay(TIMEOUT_S),
    reraise=True,
)


@_until_it_holds
def _await_known(admin: AdminClient, topic: str) -> None:
    """Waits until the brokers know an existing topic, which the controller knows earlier."""
    if not partitions_of(admin, topic):
        raise ExternalError(f'topic "{topic}" exists, but no broker knows it yet')


@_until_it_holds
def id_of_existing(admin: AdminClient, topic: str) -> str | None:
    """The id of an existing topic; None if the brokers have no topic ids. Any broker may be asked, so this waits until
    that broker knows the topic."""
    known = _described_ids(admin, [topic])
    if topic not in known:
        raise ExternalError(f'a broker does not know topic "{topic}" yet', retryable=True)
    return None if known[topic] == _NO_ID else known[topic]


@_until_it_holds
def _settings_of(admin: AdminClient, topic: str) -> Mapping[str, ConfigEntry]:
    """The settings of an existing topic. Any broker may be asked, so this waits until that broker knows the topic."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    try:
        entries: Mapping[str, ConfigEntry] = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    except TimeoutError as error:
        raise ExternalError(f'kafka did not answer while reading the settings of topic "{topic}"') from error
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise ExternalError(f'a broker does not know topic "{topic}" yet', retryable=True) from error
        raise translate(error.args[0], f'reading the settings of topic "{topic}"') from error
    return entries


@_until_it_holds
def _await_leaders(admin: AdminClient, topic: str, partitions: int) -> None:
    known = admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
    if sum(partition.leader >= 0 for partition in known.values()) < partitions:
        raise ExternalError(f'some partitions of topic "{topic}" have no leader yet')


def earliest(admin: AdminClient, wanted: Iterable[Partition]) -> dict[Partition, int]:
    """The first offset of each partition; leaves out unknown partitions."""
    return _offsets(admin, wanted, OffsetSpec.earliest())


def latest(admin: AdminClient, wanted: Iterable[Partition]) -> dict[Partition, int]:
    """The offset after the last committed record of each partition; leaves out unknown partitions."""
    return _offsets(admin, wanted, OffsetSpec.latest())


def written(admin: AdminClient, wanted: Iterable[Partition]) -> dict[Partition, int]:
    """The offset after the last record of each partition, including records of open transactions."""
    return _offsets(admin, wanted, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)


#: The errors of requests about a topic or partition that does not exist; without leaders, the client asks nobody.
_UNKNOWN = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION, KafkaError._NOENT)


def last_times(admin: AdminClient, wanted: Iterable[Partition]) -> dict[Partition, int | None]:
    """The greatest timestamp of the records of each partition, in milliseconds since 1970; None without records."""
    specs = {TopicPartition(*partition): OffsetSpec.max_timestamp() for partition in sorted(set(wanted))}
    if not specs:
        return {}
    with translated("asking for the times of the last records"):
        futures = admin.list_offsets(specs, request_timeout=TIMEOUT_S)
        return {(place.topic, place.partition): _timestamp(future) for place, future in futures.items()}


def _timestamp(future: Any) -> int | None:
    try:
        found = future.result()
    except KafkaException as error:
        if error.args[0].code() in _UNKNOWN:
            return None
        raise
    return int(found.timestamp) if found.offset >= 0 else None


class _Moving(ExternalError):
    """The client does not know the current leader of a partition yet, for example just after the topic was created."""


@retry(
    retry=retry_if_exception_type(_Moving),
    wait=wait_exponential(0.02, max=0.5),
    stop=stop_after_delay(TIMEOUT_S),
    reraise=True,
)
def _offsets(
    admin: AdminClient,
    wanted: Iterable[Partition],
    spec: OffsetSpec,
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
) -> dict[Partition, int]:
    specs = {TopicPartition(*partition): spec for partition in sorted(set(wanted))}
    if not specs:
        return {}
    with translated("asking for offsets"):
        futures = admin.list_offsets(specs, isolation_level=isolation, request_timeout=TIMEOUT_S)
    offsets: dict[Partition, int] = {}
    for partition, future in futures.items():
        try:
            offsets[(partition.topic, partition.partition)] = future.result().offset
        except KafkaException as error:
            if error.args[0].code() in _MOVING:
                partitions_of(admin, partition.topic)  # refreshes the client's metadata
                raise _Moving(f'the leader of topic "{partition.topic}" is being elected') from error
            if error.args[0].code() == KafkaError._UNKNOWN_PARTITION:
                if partition.partition in partitions_of(admin, partition.topic):  # refreshes the client's metadata
                    raise _Moving(f'a partition was added to topic "{partition.topic}"') from error
            elif error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise translate(error.args[0], f'asking for offsets of topic "{partition.topic}"') from error
    return offsets


def delete_topic(admin: AdminClient, topic: str) -> None:
    """Deletes a topic if it exists, and waits until the brokers no longer know it."""
    try:
        known = topic_ids(admin, [topic]).get(topic)
        admin.delete_topics([topic])[topic].result(TIMEOUT_S)
        _await_gone(admin, topic, known)
    except TimeoutError as error:
        raise ExternalError(f'kafka did not answer while deleting topic "{topic}"', retryable=True) from error
    except KafkaException as error:
        if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise translate(error.args[0], f'deleting topic "{topic}"') from error


@retry(
    retry=retry_if_exception_type(ExternalError),
    wait=wait_exponential(0.02, max=0.5),
    stop=stop_after_delay(TIMEOUT_S),
    reraise=True,
)
def _await_gone(admin: AdminClient, topic: str, known: str | None) -> None:
    """Waits until a topic is gone, or another topic has its name."""
    exists = partitions_of(admin, topic) if known is None else topic_ids(admin, [topic]).get(topic) == known
    if exists:
        raise ExternalError(f'kafka is still deleting topic "{topic}"', retryable=True)
