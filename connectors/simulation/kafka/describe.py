"""Requests and answers of Kafka's protocol as readable lines for the trace of a simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from connectors.simulation.kafka import codes
from connectors.simulation.kafka.batches import batches_of


def kind_of(request: Any) -> str:
    """The name of a request's kind, such as "EndTxn"."""
    return str(type(request).__name__).removesuffix("Request")


def transactional_id_of(request: Any) -> str | None:
    """The transactional id that a request is for; None if it is for none."""
    names = "transactional_id", "v3_and_below_transactional_id"
    found: Iterator[str | None] = (getattr(request, name, None) for name in names)
    return next((each for each in found if each), None)


def described(request: Any) -> str:
    """A request in one line."""
    kind = kind_of(request)
    details = _DETAILS.get(kind)
    return kind if details is None else f"{kind} {details(request)}"


def outcome(answer: Any) -> str:
    """The error codes and the main values of an answer."""
    name = str(type(answer).__name__).removesuffix("Response")
    details = _OUTCOMES.get(name)
    return codes.name_of(getattr(answer, "error_code", 0) or 0) if details is None else details(answer)


def _produced(request: Any) -> str:
    parts = []
    for topic in request.topic_data:
        for part in topic.partition_data:
            for batch in batches_of(bytes(part.records)):
                who = f"{batch.producer}/{batch.epoch} #{batch.sequence}"
                parts.append(f"{topic.name}/{part.index} {batch.count} records of {who}")
    return ", ".join(parts)


def _fetched(request: Any) -> str:
    return ", ".join(f"{t.topic}/{p.partition} from {p.fetch_offset}" for t in request.topics for p in t.partitions)


def _added(request: Any) -> str:
    topics = request.v3_and_below_topics
    places = ", ".join(f"{topic.name}/{part}" for topic in topics for part in topic.partitions)
    owner = f"{request.v3_and_below_transactional_id} {request.v3_and_below_producer_id}"
    return f"{owner}/{request.v3_and_below_producer_epoch}: {places}"


def _ended(request: Any) -> str:
    what = "commit" if request.committed else "abort"
    return f"{request.transactional_id} {request.producer_id}/{request.producer_epoch} {what}"


def _topics(request: Any) -> str:
    return "all topics" if request.topics is None else ", ".join(topic.name for topic in request.topics)


def _listed(request: Any) -> str:
    return ", ".join(f"{t.name}/{p.partition_index} at {p.timestamp}" for t in request.topics for p in t.partitions)


_DETAILS: dict[str, Callable[[Any], str]] = {
    "Produce": _produced,
    "Fetch": _fetched,
    "AddPartitionsToTxn": _added,
    "EndTxn": _ended,
    "InitProducerId": lambda r: f"{r.transactional_id} {r.producer_id}/{r.producer_epoch}",
    "FindCoordinator": lambda r: r.key,
    "Metadata": _topics,
    "ListOffsets": _listed,
    "CreateTopics": _topics,
    "DeleteTopics": lambda r: ", ".join(r.topic_names),
}


def _of_parts(pairs: Iterator[tuple[str, int, str]]) -> str:
    return ", ".join(f"{place} {codes.name_of(code)}{more}" for place, code, more in pairs)


def _records(topic: str, part: Any) -> tuple[str, int, str]:
    size = len(part.records or b"")
    return f"{topic}/{part.partition_index}", part.error_code, f" {size} bytes, stable {part.last_stable_offset}"


_OUTCOMES: dict[str, Callable[[Any], str]] = {
    "Produce": lambda a: _of_parts(
        (f"{t.name}/{p.index}", p.error_code, f" at {p.base_offset}")
        for t in a.responses
        for p in t.partition_responses
    ),
    "Fetch": lambda a: _of_parts(_records(t.topic, p) for t in a.responses for p in t.partitions),
    "AddPartitionsToTxn": lambda a: _of_parts(
        (f"{t.name}/{p.partition_index}", p.partition_error_code, "")
        for t in a.results_by_topic_v3_and_below
        for p in t.results_by_partition
    ),
    "EndTxn": lambda a: f"{codes.name_of(a.error_code)} {a.producer_id}/{a.producer_epoch}",
    "InitProducerId": lambda a: f"{codes.name_of(a.error_code)} {a.producer_id}/{a.producer_epoch}",
    "FindCoordinator": lambda a: f"{codes.name_of(a.error_code)} {a.node_id}",
    "ListOffsets": lambda a: _of_parts(
        (f"{t.name}/{p.partition_index}", p.error_code, f" {p.offset}") for t in a.topics for p in t.partitions
    ),
    "Metadata": lambda a: "",
}  # fmt: skip
