"""How a simulated broker answers a produce request.

Before the first batch of a transaction in a partition, the leader asks the transaction coordinator: to add the
partition if the request has the protocol of KIP-890, otherwise whether the partition was added.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafka.protocol.producer import ProduceResponse

from connectors.simulation.kafka import codes
from connectors.simulation.kafka.batches import Batch, batches_of
from connectors.simulation.kafka.broker import Broker, Respond
from connectors.simulation.kafka.image import Topic
from connectors.simulation.kafka.log import Appended, PartitionLog, Rules
from connectors.simulation.kafka.producers import Verification
from connectors.simulation.kafka.transaction import Place

#: The versions of the request from which on leaders add partitions, and on clients know TRANSACTION_ABORTABLE.
_ADDS, _ABORTABLE = 12, 11
#: How long a leader asks again while the coordinator ends the last transaction.
_AGAIN_S, _ASKS_S = 0.02, 0.1
#: Answers of a coordinator for which the client is to try again. It would not know the codes themselves.
_TRY_AGAIN = {codes.COORDINATOR_LOADING, codes.COORDINATOR_NOT_AVAILABLE, codes.NOT_COORDINATOR}
Verified = dict[Place, "Verification | None"]


@dataclass(frozen=True, slots=True)
class _Part:
    """A batch for a partition that the broker leads."""

    place: Place
    data: bytes
    batch: Batch
    topic: Topic
    log: PartitionLog


def produce(broker: Broker, request: Any, client: str, respond: Respond) -> None:
    """Appends the batches of a request."""
    results: dict[Place, Appended] = {}
    parts = []
    for topic in request.topic_data:
        for part in topic.partition_data:
            code, known, log = broker.led(topic.name, part.index)
            if known is None or log is None:
                results[topic.name, part.index] = Appended(code)
            else:
                data = bytes(part.records)
                parts.append(_Part((topic.name, part.index), data, next(batches_of(data)), known, log))
    throttle = broker.cluster.throttle_ms(client, sum(len(part.data) for part in parts))

    def append(verified: Verified, refused: dict[Place, int]) -> None:
        for part in parts:
            refusal = refused.get(part.place, codes.NONE)
            results[part.place] = Appended(refusal) if refusal else _append(broker, part, verified.get(part.place))
        respond(_response(request, results, throttle))

    if request.transactional_id is None:
        append({}, {})
    else:
        _verify(broker, request, parts, append)


def _append(broker: Broker, part: _Part, verified: Verification | None) -> Appended:
    code, topic, log = broker.led(*part.place)
    if topic is None or log is not part.log:
        return Appended(code or codes.UNKNOWN_TOPIC)
    cluster = broker.cluster
    stamped = topic.setting("message.timestamp.type") == "LogAppendTime"
    rules = Rules(
        largest_batch=int(topic.setting("max.message.bytes")),
        keyed=topic.compacted,
        stamp_ms=cluster.now_ms() if stamped else None,
        latest_ms=None if stamped else cluster.now_ms() + int(topic.setting("message.timestamp.after.max.ms")),
        verification=cluster.verification,
        segment_bytes=int(topic.setting("segment.bytes")),
        segment_ms=int(topic.setting("segment.ms")),
    )
    appended = part.log.append(part.data, rules, topic.leaders[part.place[1]].epoch, verified)
    if appended.code == codes.NONE:
        cluster.clean_later(topic, part.place[1])
    return appended


def _verify(
    broker: Broker, request: Any, parts: list[_Part], then: Callable[[Verified, dict[Place, int]], None]
) -> None:
    """Asks the coordinator about partitions in which the transaction has no record yet, then calls `then`."""
    adds = request.API_VERSION >= _ADDS
    if not adds and not broker.cluster.verification:
        then({}, {})
        return
    deadline = broker.cluster.scheduler.now + _ASKS_S

    def ask() -> None:
        asked = {part.place: part.log.producer(part.batch.producer).verify(part.batch, adds=adds) for part in parts}
        wanted = [part for part in parts if asked[part.place] is not None]
        if wanted:
            broker.later(broker.cluster.network.delay_s(), lambda: take(asked, wanted))
        else:
            then(asked, {})

    def take(asked: Verified, wanted: list[_Part]) -> None:
        refused = _asked(broker, request, wanted, adds=adds)
        if adds and codes.CONCURRENT in refused.values() and broker.cluster.scheduler.now < deadline:
            broker.later(_AGAIN_S, ask)
        else:
            known = {place: _for_clients(code, request.API_VERSION) for place, code in refused.items()}
            broker.later(broker.cluster.network.delay_s(), lambda: then(asked, known))

    ask()


def _asked(broker: Broker, request: Any, parts: list[_Part], *, adds: bool) -> dict[Place, int]:
    """The coordinator's answer for each partition, as an error code."""
    coordinator, batch = broker.cluster.coordinator, parts[0].batch
    owner, producer = request.transactional_id, (batch.producer, batch.epoch)
    places = [part.place for part in parts]
    leader = broker.image.coordinators[coordinator.place_of(owner)].broker
    if not broker.cluster.up(leader):
        return dict.fromkeys(places, codes.COORDINATOR_NOT_AVAILABLE)
    if (code := coordinator.refusal(owner, leader)) != codes.NONE:
        return dict.fromkeys(places, code)
    if adds:
        return dict.fromkeys(places, coordinator.add(owner, producer, places))
    return {place: coordinator.verify(owner, producer, place) for place in places}


def _for_clients(code: int, version: int) -> int:
    """The coordinator's answer as an error code that clients of the request's version know."""
    if code in _TRY_AGAIN or (code == codes.CONCURRENT and version < _ADDS):
        return codes.NOT_ENOUGH_REPLICAS
    if code == codes.FENCED:
        return codes.INVALID_EPOCH
    return codes.INVALID_STATE if code == codes.ABORTABLE and version < _ABORTABLE else code


def _response(request: Any, results: dict[Place, Appended], throttle_ms: int) -> ProduceResponse:
    kind = ProduceResponse.TopicProduceResponse
    part = kind.PartitionProduceResponse
    responses = [
        kind(name=topic.name, partition_responses=[_result(part, each.index, results[topic.name, each.index])
                                                   for each in topic.partition_data])
        for topic in request.topic_data
    ]  # fmt: skip
    return ProduceResponse(responses=responses, throttle_time_ms=throttle_ms)


def _result(kind: Any, partition: int, appended: Appended) -> Any:
    return kind(
        index=partition,
        error_code=appended.code,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.time_ms,
        log_start_offset=-1,
        record_errors=[],
    )
