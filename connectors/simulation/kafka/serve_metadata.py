"""How a simulated broker answers questions about the cluster."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DescribeClusterResponse
from kafka.protocol.metadata import ApiVersionsResponse, FindCoordinatorResponse, MetadataResponse

from connectors.simulation.kafka import codes
from connectors.simulation.kafka.broker import Broker, Respond
from connectors.simulation.kafka.image import Topic, broker_name

_PORT = 9092


def api_versions(broker: Broker, request: Any, client: str, respond: Respond) -> None:
    """The features of the cluster."""
    kind = ApiVersionsResponse.FinalizedFeatureKey
    version = broker.cluster.transaction_version
    # A cluster does not list a feature at version 0.
    found = [kind(name="transaction.version", max_version_level=version, min_version_level=version)] if version else []
    respond(ApiVersionsResponse(error_code=codes.NONE, api_keys=[], finalized_features=found))


def metadata(broker: Broker, request: Any, client: str, respond: Respond) -> None:
    """The brokers, and the leaders of the partitions of some topics; of all topics if the request names none."""
    image = broker.image
    kind = MetadataResponse.MetadataResponseBroker
    names = sorted(image.topics) if request.topics is None else [topic.name for topic in request.topics]
    respond(
        MetadataResponse(
            brokers=[kind(node_id=n, host=broker_name(n), port=_PORT, rack=None) for n in sorted(image.alive)],
            cluster_id=broker.cluster.id,
            controller_id=min(image.alive, default=-1),
            topics=[_topic(name, image.topics.get(name), image.alive) for name in names],
            error_code=codes.NONE,
        )
    )


def _topic(name: str, topic: Topic | None, alive: frozenset[int]) -> Any:
    kind = MetadataResponse.MetadataResponseTopic
    if topic is None:
        return kind(error_code=codes.UNKNOWN_TOPIC, name=name, topic_id=None, is_internal=False, partitions=[])
    part = kind.MetadataResponsePartition
    partitions = [
        part(
            error_code=codes.NONE if leader.broker in alive else codes.LEADER_NOT_AVAILABLE,
            partition_index=number,
            leader_id=leader.broker if leader.broker in alive else -1,
            leader_epoch=leader.epoch,
            replica_nodes=sorted(alive),
            isr_nodes=sorted(alive),
            offline_replicas=[],
        )
        for number, leader in enumerate(topic.leaders)
    ]
    return kind(error_code=codes.NONE, name=name, topic_id=topic.id, is_internal=False, partitions=partitions)


def find_coordinator(broker: Broker, request: Any, client: str, respond: Respond) -> None:
    """The coordinator of a transactional id."""
    leader = broker.image.coordinators[broker.cluster.coordinator.place_of(request.key)].broker
    if leader in broker.image.alive:
        answer = FindCoordinatorResponse(
            error_code=codes.NONE, error_message=None, node_id=leader, host=broker_name(leader), port=_PORT
        )
    else:
        answer = FindCoordinatorResponse(
            error_code=codes.COORDINATOR_NOT_AVAILABLE, error_message=None, node_id=-1, host="", port=-1
        )
    respond(answer)


def describe_cluster(broker: Broker, request: Any, client: str, respond: Respond) -> None:
    """The id of the cluster, and its brokers."""
    kind = DescribeClusterResponse.DescribeClusterBroker
    alive = sorted(broker.image.alive)
    respond(
        DescribeClusterResponse(
            error_code=codes.NONE,
            cluster_id=broker.cluster.id,
            controller_id=alive[0],
            brokers=[kind(broker_id=n, host=broker_name(n), port=_PORT, rack=None) for n in alive],
        )
    )
