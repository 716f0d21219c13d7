"""A stand-in for confluent-kafka's AdminClient, with the methods that this project uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition, Uuid
from confluent_kafka.admin import (
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    TopicMetadata,
)
from kafka.errors import KafkaError as ClientError
from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from connectors.kafka.client.transactions import by_topic
from connectors.simulation.kafka.connections import SimulatedConnections
from connectors.simulation.threads import TaskFuture
from operators.core.errors import ExternalError

#: The time after which a request without a timeout of its own fails.
_TIMEOUT_S = 60.0
_AGAIN_S = 0.1
_TOPIC = 2


class SimulatedAdmin:
    """Administers a simulated cluster. Like librdkafka, it does not repeat a request that may have been executed."""

    def __init__(self, connections: SimulatedConnections) -> None:
        self._connections, self._scheduler = connections, connections.scheduler

    # metadata

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        """The brokers and topics; those of one topic if it is given."""
        return self._metadata(None if topic is None else [topic], _TIMEOUT_S if timeout < 0 else timeout)

    def describe_topics(self, topics: TopicCollection, request_timeout: float = _TIMEOUT_S) -> dict[str, TaskFuture]:
        """The id of each topic."""

        def described(name: str) -> Any:
            answer = self._asked(_metadata_request([name]), request_timeout).topics[0]
            _check(answer.error_code)
            return SimpleNamespace(name=name, topic_id=_uuid(answer.topic_id))

        return {name: self._later(partial(described, name)) for name in topics.topic_names}

    def describe_cluster(self, request_timeout: float = _TIMEOUT_S) -> TaskFuture:
        """The id of the cluster."""

        def described() -> Any:
            answer = self._asked(DescribeClusterRequest(), request_timeout)
            return SimpleNamespace(cluster_id=answer.cluster_id)

        return self._later(described)

    def poll(self, timeout: float = 0.0) -> int:
        """Waits for some seconds: an admin client has no callbacks."""
        self._scheduler.sleep(max(timeout, 0.0))
        return 0

    # topics

    def create_topics(self, new_topics: Iterable[NewTopic], request_timeout: float = _TIMEOUT_S) -> dict[str, Any]:
        """Creates topics."""
        kind = CreateTopicsRequest.CreatableTopic

        def request(topic: NewTopic) -> Any:
            settings = [kind.CreatableTopicConfig(name=name, value=value) for name, value in topic.config.items()]
            creatable = kind(name=topic.topic, num_partitions=topic.num_partitions, replication_factor=-1,
                             assignments=[], configs=settings)  # fmt: skip
            return CreateTopicsRequest(topics=[creatable], timeout_ms=int(request_timeout * 1000), validate_only=False)

        return {
            topic.topic: self._done(request(topic), request_timeout, lambda answer: answer.topics[0].error_code)
            for topic in new_topics
        }

    def delete_topics(self, topics: Iterable[str], request_timeout: float = _TIMEOUT_S) -> dict[str, Any]:
        """Deletes topics."""

        def request(name: str) -> Any:
            return DeleteTopicsRequest(topic_names=[name], timeout_ms=int(request_timeout * 1000), max_version=5)

        return {
            name: self._done(request(name), request_timeout, lambda answer: answer.responses[0].error_code)
            for name in topics
        }

    def create_partitions(self, more: Iterable[NewPartitions], request_timeout: float = _TIMEOUT_S) -> dict[str, Any]:
        """Raises the numbers of partitions of topics."""
        kind = CreatePartitionsRequest.CreatePartitionsTopic

        def request(each: NewPartitions) -> Any:
            wanted = kind(name=each.topic, count=each.new_total_count, assignments=None)
            return CreatePartitionsRequest(topics=[wanted], timeout_ms=int(request_timeout * 1000), validate_only=False)

        return {
            each.topic: self._done(request(each), request_timeout, lambda answer: answer.results[0].error_code)
            for each in more
        }

    def describe_configs(
        self, resources: Iterable[ConfigResource], request_timeout: float = _TIMEOUT_S
    ) -> dict[ConfigResource, TaskFuture]:
        """The settings of topics."""
        kind = DescribeConfigsRequest.DescribeConfigsResource

        def described(resource: ConfigResource) -> dict[str, ConfigEntry]:
            wanted = kind(resource_type=resource.restype.value, resource_name=resource.name, configuration_keys=None)
            answer = self._asked(DescribeConfigsRequest(resources=[wanted]), request_timeout).results[0]
            _check(answer.error_code)
            return {each.name: ConfigEntry(each.name, each.value) for each in answer.configs}

        return {resource: self._later(partial(described, resource)) for resource in resources}

    def incremental_alter_configs(
        self, resources: Iterable[ConfigResource], request_timeout: float = _TIMEOUT_S
    ) -> dict[ConfigResource, Any]:
        """Changes settings of topics."""
        kind = IncrementalAlterConfigsRequest.AlterConfigsResource

        def request(resource: ConfigResource) -> Any:
            configs = [
                kind.AlterableConfig(
                    name=each.name, config_operation=each.incremental_operation.value, value=each.value
                )
                for each in resource.incremental_configs
            ]
            wanted = kind(resource_type=resource.restype.value, resource_name=resource.name, configs=configs)
            return IncrementalAlterConfigsRequest(resources=[wanted], validate_only=False)

        return {
            each: self._done(request(each), request_timeout, lambda answer: answer.responses[0].error_code)
            for each in resources
        }

    # offsets

    def list_offsets(
        self,
        topic_partition_offsets: Mapping[TopicPartition, OffsetSpec],
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        request_timeout: float = _TIMEOUT_S,
    ) -> dict[TopicPartition, TaskFuture]:
        """The offsets of partitions. Leaders are looked up only if they are unknown, so they may be outdated."""
        asked = {place: self._future() for place in topic_partition_offsets}

        def ask() -> None:
            try:
                found = self._offsets(topic_partition_offsets, isolation_level, request_timeout)
            except KafkaException as error:
                found = dict.fromkeys(asked, error.args[0])
            for place, future in asked.items():
                future.run(partial(_offset_or_raise, found[place]))

        self._scheduler.spawn(ask, "admin", self._connections.process)
        return asked

    def delete_records(
        self, topic_partition_offsets: Iterable[TopicPartition], request_timeout: float = _TIMEOUT_S
    ) -> dict[TopicPartition, TaskFuture]:
        """Deletes the records below the given offsets."""

        def deleted(place: TopicPartition) -> Any:
            leader = self._leaders([place], request_timeout)[place]
            if isinstance(leader, KafkaError):
                raise KafkaException(leader)
            kind = DeleteRecordsRequest.DeleteRecordsTopic
            part = kind.DeleteRecordsPartition(partition_index=place.partition, offset=place.offset)
            topics = [kind(name=place.topic, partitions=[part])]
            request = DeleteRecordsRequest(topics=topics, timeout_ms=int(request_timeout * 1000))
            answer = self._asked(request, request_timeout, leader).topics[0].partitions[0]
            _check(answer.error_code)
            return SimpleNamespace(low_watermark=answer.low_watermark)

        return {place: self._later(partial(deleted, place)) for place in topic_partition_offsets}

    def _offsets(
        self, specs: Mapping[TopicPartition, OffsetSpec], isolation: IsolationLevel, timeout_s: float
    ) -> dict[TopicPartition, int | KafkaError]:
        leaders = self._leaders(specs, timeout_s)
        if not any(isinstance(leader, int) for leader in leaders.values()):
            nowhere = KafkaError(KafkaError._NOENT, "Failed to query partition leaders: No leaders found")
            return dict.fromkeys(specs, nowhere)
        found: dict[TopicPartition, int | KafkaError] = {
            place: leader for place, leader in leaders.items() if isinstance(leader, KafkaError)
        }
        for leader in sorted({leader for leader in leaders.values() if isinstance(leader, int)}):
            places = [place for place, its in leaders.items() if its == leader]
            request = _offsets_request({place: specs[place] for place in places}, isolation)
            answer = self._asked(request, timeout_s, leader)
            codes = {(t.name, p.partition_index): p for t in answer.topics for p in t.partitions}
            for place in places:
                part = codes[place.topic, place.partition]
                found[place] = KafkaError(part.error_code) if part.error_code else int(part.offset)
        return found

    def _leaders(self, places: Iterable[TopicPartition], timeout_s: float) -> dict[TopicPartition, int | KafkaError]:
        """The known leader of each partition, or why there is none."""
        connections, places = self._connections, list(places)
        unknown = {place.topic for place in places if connections.known_partitions(place.topic) is None}
        if unknown:
            self._metadata(sorted(unknown), timeout_s)
        leaders: dict[TopicPartition, int | KafkaError] = {}
        for place in places:
            leader = connections.known_leader(place.topic, place.partition)
            if leader is not None:
                leaders[place] = leader
            elif (count := connections.known_partitions(place.topic)) is None:
                leaders[place] = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
            else:
                known = place.partition < count
                code = KafkaError.LEADER_NOT_AVAILABLE if known else KafkaError._UNKNOWN_PARTITION
                leaders[place] = KafkaError(code)
        return leaders

    # requests

    def _metadata(self, topics: list[str] | None, timeout_s: float) -> Any:
        """Asks for metadata, again and again if no broker can be reached, and keeps the leaders."""
        deadline = self._scheduler.now + timeout_s
        while True:
            try:
                answer = self._asked(_metadata_request(topics), deadline - self._scheduler.now)
            except KafkaException:
                if self._scheduler.now + _AGAIN_S >= deadline:
                    raise
                self._scheduler.sleep(_AGAIN_S)
            else:
                self._connections.learn(answer)
                return SimpleNamespace(
                    cluster_id=answer.cluster_id,
                    brokers={broker.node_id: broker for broker in answer.brokers},
                    topics={topic.name: _topic(topic) for topic in answer.topics},
                )

    def _asked(self, request: Any, timeout_s: float, node: int | None = None) -> Any:
        """The answer to a request. Raises KafkaException if it is lost."""
        connections = self._connections
        future = connections.send_nowait(request) if node is None else connections.send(node, request)
        try:
            return connections.wait(future, timeout_s)
        except ClientError as error:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT)) from error
        except ExternalError as error:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from error

    def _done(self, request: Any, timeout_s: float, code: Callable[[Any], int]) -> TaskFuture:
        return self._later(lambda: _check(code(self._asked(request, timeout_s))))

    def _later(self, call: Callable[[], Any]) -> TaskFuture:
        """Calls a function in a task, as librdkafka does in its thread."""
        future = self._future()
        self._scheduler.spawn(lambda: future.run(call), "admin", self._connections.process)
        return future

    def _future(self) -> TaskFuture:
        return TaskFuture(self._scheduler)


def _check(code: int) -> None:
    if code:
        raise KafkaException(KafkaError(code))


def _offset_or_raise(found: int | KafkaError) -> Any:
    if isinstance(found, KafkaError):
        raise KafkaException(found)
    return SimpleNamespace(offset=found)


def _metadata_request(topics: list[str] | None) -> MetadataRequest:
    kind = MetadataRequest.MetadataRequestTopic
    named = None if topics is None else [kind(topic_id=None, name=name) for name in topics]
    return MetadataRequest(topics=named, allow_auto_topic_creation=False)


def _offsets_request(specs: Mapping[TopicPartition, OffsetSpec], isolation: IsolationLevel) -> ListOffsetsRequest:
    kind = ListOffsetsRequest.ListOffsetsTopic
    parts = (
        (place.topic, kind.ListOffsetsPartition(partition_index=place.partition, current_leader_epoch=-1,
                                                timestamp=spec._value))
        for place, spec in specs.items()
    )  # fmt: skip
    topics = [kind(name=topic, partitions=each) for topic, each in by_topic(parts).items()]
    return ListOffsetsRequest(replica_id=-1, isolation_level=isolation.value, topics=topics, timeout_ms=60_000)


def _topic(answer: Any) -> TopicMetadata:
    found = TopicMetadata()
    found.topic = answer.name
    found.error = KafkaError(answer.error_code) if answer.error_code else None
    found.partitions = {
        part.partition_index: SimpleNamespace(id=part.partition_index, leader=part.leader_id)
        for part in answer.partitions
    }
    return found


def _uuid(value: Any) -> Uuid:
    number = int(value)
    most, least = number >> 64, number & ((1 << 64) - 1)
    return Uuid(_signed(most), _signed(least))


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
