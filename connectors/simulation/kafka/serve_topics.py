"""How a simulated broker answers requests that create, change and delete topics."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import (
    CreatePartitionsResponse,
    CreateTopicsResponse,
    DeleteRecordsResponse,
    DeleteTopicsResponse,
    DescribeConfigsResponse,
    IncrementalAlterConfigsResponse,
)

from connectors.simulation.kafka import codes
from connectors.simulation.kafka.broker import Broker, Respond
from connectors.simulation.kafka.image import DEFAULTS

_TOPIC, _BROKER = 2, 4
_VERIFICATION = "transaction.partition.verification.enable"
_TO_END = -1


def create_topics(broker: Broker, request: Any, client: str, respond: Respond) -> None:
    """Creates topics."""
    kind = CreateTopicsResponse.CreatableTopicResult
    results = []
    for topic in request.topics:
        settings = {each.name: each.value for each in topic.configs}
        count = 1 if topic.num_partitions == -1 else topic.num_partitions
        code = broker.cluster.create_topic(topic.name, count, settings)
        results.append(kind(name=topic.name, error_code=code, error_message=None))
    respond(CreateTopicsResponse(topics=results))


def delete_topics(broker: Broker, request: Any, client: str, respond: Respond) -> None:
    """Deletes topics."""
    kind = DeleteTopicsResponse.DeletableTopicResult
    found = [kind(name=name, error_code=broker.cluster.delete_topic(name)) for name in request.topic_names]
    respond(DeleteTopicsResponse(responses=found))


def create_partitions(broker: Broker, request: Any, client: str, respond: Respond) -> None:
    """Raises the numbers of partitions of topics."""
    kind = CreatePartitionsResponse.CreatePartitionsTopicResult
    results = [
        kind(name=topic.name, error_code=broker.cluster.add_partitions(topic.name, topic.count), error_message=None)
        for topic in request.topics
    ]
    respond(CreatePartitionsResponse(results=results))


def describe_configs(broker: Broker, request: Any, client: str, respond: Respond) -> None:
    """The settings of topics."""
    kind = DescribeConfigsResponse.DescribeConfigsResult
    entry = kind.DescribeConfigsResourceResult
    results = []
    for resource in request.resources:
        topic = broker.image.topics.get(resource.resource_name)
        values = {} if topic is None else {name: topic.setting(name) for name in DEFAULTS}
        code = codes.UNKNOWN_TOPIC if topic is None else codes.NONE
        entries = [entry(name=name, value=value) for name, value in sorted(values.items())]
        results.append(
            kind(
                error_code=code,
                error_message=None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=entries,
            )
        )
    respond(DescribeConfigsResponse(results=results))


def alter_configs(broker: Broker, request: Any, client: str, respond: Respond) -> None:
    """Changes settings of topics, or of brokers the one that says whether they verify transactions."""
    kind = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
    results = []
    for resource in request.resources:
        settings = {each.name: each.value for each in resource.configs}
        code = codes.NONE
        if resource.resource_type == _BROKER:
            broker.cluster.verification = settings.get(_VERIFICATION, "true") == "true"
        else:
            code = broker.cluster.configure_topic(resource.resource_name, settings)
        results.append(
            kind(
                error_code=code,
                error_message=None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    respond(IncrementalAlterConfigsResponse(responses=results))


def delete_records(broker: Broker, request: Any, client: str, respond: Respond) -> None:
    """Deletes the records below given offsets."""
    kind = DeleteRecordsResponse.DeleteRecordsTopicResult
    topics = [
        kind(name=topic.name, partitions=[_deleted(broker, topic.name, part) for part in topic.partitions])
        for topic in request.topics
    ]
    respond(DeleteRecordsResponse(topics=topics))


def _deleted(broker: Broker, topic: str, wanted: Any) -> Any:
    kind = DeleteRecordsResponse.DeleteRecordsTopicResult.DeleteRecordsPartitionResult
    code, _, log = broker.led(topic, wanted.partition_index)
    low = -1
    if log is not None:
        if wanted.offset > log.end:
            code = codes.OFFSET_OUT_OF_RANGE
        else:
            log.delete_before(log.end if wanted.offset == _TO_END else wanted.offset)
            low = log.start
    return kind(partition_index=wanted.partition_index, low_watermark=low, error_code=code)
