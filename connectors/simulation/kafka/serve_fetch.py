"""How a simulated broker answers requests for records and for offsets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka.protocol.consumer import FetchResponse, ListOffsetsResponse

from connectors.simulation.kafka import codes
from connectors.simulation.kafka.broker import Broker, Respond
from connectors.simulation.kafka.log import PartitionLog

_COMMITTED = 1
_LATEST, _EARLIEST = -1, -2
_Topic = FetchResponse.FetchableTopicResponse


def fetch(broker: Broker, request: Any, client: str, respond: Respond) -> None:
    """Records from given offsets on. If there are none, waits for some as long as the request says."""
    answered = False

    def answer() -> None:
        nonlocal answered
        if not answered:
            answered = True
            respond(_fetched(broker, request))

    def look() -> None:
        """Answers if there are records, and otherwise looks again after the next change."""
        if answered:
            return
        found = _fetched(broker, request)
        parts = [part for topic in found.responses for part in topic.partitions]
        if any(part.error_code for part in parts) or sum(len(part.records or b"") for part in parts) >= max(
            request.min_bytes, 1
        ):
            answer()
        else:
            _on_change(broker, request, look)

    look()
    if not answered:
        broker.later(request.max_wait_ms / 1000, answer)


def _on_change(broker: Broker, request: Any, call: Callable[[], None]) -> None:
    for topic in request.topics:
        for part in topic.partitions:
            _, _, log = broker.led(topic.topic, part.partition)
            if log is not None:
                log.waiting.append(lambda: broker.later(0.0, call))


def _fetched(broker: Broker, request: Any) -> FetchResponse:
    left, responses = request.max_bytes, []
    for topic in request.topics:
        parts = []
        for wanted in topic.partitions:
            most = min(wanted.partition_max_bytes, left)
            parts.append(_part(broker, topic.topic, wanted, most, request.isolation_level == _COMMITTED))
            left = max(left - len(parts[-1].records or b""), 0)
        responses.append(_Topic(topic=topic.topic, partitions=parts))
    return FetchResponse(error_code=codes.NONE, session_id=0, responses=responses)


def _part(broker: Broker, topic: str, wanted: Any, most_bytes: int, committed: bool) -> Any:
    code, _, log = broker.led(topic, wanted.partition)
    if log is not None and not log.start <= wanted.fetch_offset <= log.end:
        code = codes.OFFSET_OUT_OF_RANGE
    if log is None or code != codes.NONE:
        return _Topic.PartitionData(
            partition_index=wanted.partition, error_code=code, high_watermark=-1, last_stable_offset=-1,
            log_start_offset=-1, aborted_transactions=None, records=b"",
        )  # fmt: skip
    upto = log.stable if committed else log.end
    data = log.read(wanted.fetch_offset, upto, most_bytes) if most_bytes > 0 else b""
    return _Topic.PartitionData(
        partition_index=wanted.partition,
        error_code=code,
        high_watermark=log.end,
        last_stable_offset=log.stable,
        log_start_offset=log.start,
        aborted_transactions=_aborted(log, wanted.fetch_offset, upto) if committed else None,
        records=data,
    )


def _aborted(log: PartitionLog, offset: int, upto: int) -> list[Any]:
    kind = _Topic.PartitionData.AbortedTransaction
    found = log.aborted_between(offset, upto)
    return [kind(producer_id=each.producer, first_offset=each.first_offset) for each in found]


def list_offsets(broker: Broker, request: Any, client: str, respond: Respond) -> None:
    """The first or last offset of partitions, or that of the first record with a timestamp."""
    kind = ListOffsetsResponse.ListOffsetsTopicResponse
    committed = request.isolation_level == _COMMITTED
    topics = [
        kind(name=topic.name, partitions=[_offset(broker, topic.name, part, committed) for part in topic.partitions])
        for topic in request.topics
    ]
    respond(ListOffsetsResponse(topics=topics))


def _offset(broker: Broker, topic: str, wanted: Any, committed: bool) -> Any:
    kind = ListOffsetsResponse.ListOffsetsTopicResponse.ListOffsetsPartitionResponse
    code, _, log = broker.led(topic, wanted.partition_index)
    offset = time_ms = -1
    if log is not None:
        upto = log.stable if committed else log.end
        if wanted.timestamp in (_LATEST, _EARLIEST):
            offset = upto if wanted.timestamp == _LATEST else log.start
        elif (found := log.offset_at(wanted.timestamp, upto)) is not None:
            offset, time_ms = found
    return kind(partition_index=wanted.partition_index, error_code=code, timestamp=time_ms, offset=offset)
