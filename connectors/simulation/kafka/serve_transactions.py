"""How a simulated broker answers the requests of transactional producers."""

from __future__ import annotations

from typing import Any

from kafka.protocol.producer import AddPartitionsToTxnResponse, EndTxnResponse, InitProducerIdResponse

from connectors.simulation.kafka import codes
from connectors.simulation.kafka.broker import Broker, Respond
from connectors.simulation.kafka.transaction import NO_PRODUCER, Place

#: The version of EndTxn from which on each end of a transaction begins a new epoch.
_NEW_EPOCHS = 5
#: The version of InitProducerId from which on clients know PRODUCER_FENCED; it was INVALID_PRODUCER_EPOCH before.
_KNOWS_FENCED = 4


def init_producer_id(broker: Broker, request: Any, client: str, respond: Respond) -> None:
    """A new epoch of a transactional id, or an id for an idempotent producer."""
    coordinator = broker.cluster.coordinator
    if request.transactional_id is None:
        respond(InitProducerIdResponse(error_code=codes.NONE, producer_id=coordinator.new_producer(), producer_epoch=0))
        return
    code = coordinator.refusal(request.transactional_id, broker.number)
    producer = NO_PRODUCER
    if code == codes.NONE:
        expected = (request.producer_id, request.producer_epoch)
        answer = coordinator.initialize(request.transactional_id, request.transaction_timeout_ms, expected)
        code, producer = answer.code, answer.producer
    code = _known(code, request.API_VERSION >= _KNOWS_FENCED)
    respond(InitProducerIdResponse(error_code=code, producer_id=producer[0], producer_epoch=producer[1]))


def add_partitions(broker: Broker, request: Any, client: str, respond: Respond) -> None:
    """Adds partitions to a transaction. If one does not exist, none is added."""
    coordinator, owner = broker.cluster.coordinator, request.v3_and_below_transactional_id
    places = [(topic.name, part) for topic in request.v3_and_below_topics for part in topic.partitions]
    unknown = {place for place in places if broker.image.leader(*place) is None}
    if unknown:
        results = {place: codes.UNKNOWN_TOPIC if place in unknown else codes.NOT_ATTEMPTED for place in places}
    else:
        code = coordinator.refusal(owner, broker.number)
        if code == codes.NONE:
            producer = (request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
            code = coordinator.add(owner, producer, places)
        results = dict.fromkeys(places, _known(code, request.API_VERSION >= 2))
    respond(_added(request, results))


def end(broker: Broker, request: Any, client: str, respond: Respond) -> None:
    """Commits or aborts a transaction."""
    coordinator, owner = broker.cluster.coordinator, request.transactional_id
    code, producer = coordinator.refusal(owner, broker.number), NO_PRODUCER
    if code == codes.NONE:
        given = (request.producer_id, request.producer_epoch)
        new_epochs = request.API_VERSION >= _NEW_EPOCHS
        answer = coordinator.end(owner, given, commit=bool(request.committed), new_epochs=new_epochs)
        code, producer = answer.code, answer.producer if new_epochs else NO_PRODUCER
    code = _known(code, request.API_VERSION >= 2)
    respond(EndTxnResponse(error_code=code, producer_id=producer[0], producer_epoch=producer[1]))


def _added(request: Any, results: dict[Place, int]) -> AddPartitionsToTxnResponse:
    kind = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
    part = kind.AddPartitionsToTxnPartitionResult
    topics = [
        kind(
            name=topic.name,
            results_by_partition=[
                part(partition_index=number, partition_error_code=results[topic.name, number])
                for number in topic.partitions
            ],
        )
        for topic in request.v3_and_below_topics
    ]
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)


def _known(code: int, knows_fenced: bool) -> int:
    return codes.INVALID_EPOCH if code == codes.FENCED and not knows_fenced else code
