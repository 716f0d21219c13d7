"""Translates confluent-kafka's errors into this project's errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from operators.core.errors import DsmsError, ExternalError, Fenced, UserError

_FENCED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
_UNKNOWN = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
_GONE = {KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET}


#: The codes with which a broker refuses the records of one topic only, each with the remedy.
_REFUSALS = {
    KafkaError.MSG_SIZE_TOO_LARGE: "raise its max.message.bytes",
    KafkaError.INVALID_RECORD: "set a cleanup.policy that accepts these records",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "allow the executors to write to it",
}


class TopicRecreated(ExternalError):
    """Topics were deleted and created again while queries wrote to them. `queries` has the reason for each query, by
    id.
    """

    def __init__(self, queries: Mapping[str, str]) -> None:
        super().__init__(next(iter(queries.values())), retryable=False)
        self.queries = queries


class TopicRefusedRecords(ExternalError):
    """A topic refuses the records that are written to it; other topics are not affected."""

    def __init__(self, topic: str, reason: str, remedy: str) -> None:
        super().__init__(
            f'topic "{topic}" refuses records: {reason}',
            hint=f"{remedy}, then PAUSE and RESUME the query",
            retryable=False,
        )
        self.topic = topic


def topic_refusal(topic: str, error: KafkaError) -> TopicRefusedRecords | None:
    """The error for a topic that refuses records; None if Kafka's error has another meaning.

    >>> str(topic_refusal("t", KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))).partition("; ")[2]
    'raise its max.message.bytes, then PAUSE and RESUME the query'
    >>> topic_refusal("t", KafkaError(KafkaError._MSG_TIMED_OUT))
    """
    remedy = _REFUSALS.get(error.code())
    return None if remedy is None else TopicRefusedRecords(topic, error.str(), remedy)


def translate(error: KafkaError, doing: str, *, transactional: bool = False) -> DsmsError:
    """This project's error for an error of Kafka. A fatal error of a transactional producer means that it is fenced:
    only its first error says so.

    >>> str(translate(KafkaError(KafkaError._ALL_BROKERS_DOWN), "reading"))
    'kafka failed while reading: Local: All broker connections are down'
    >>> type(translate(KafkaError(KafkaError._FATAL), "writing", transactional=True)).__name__
    'Fenced'
    """
    code = error.code()
    if code in _FENCED or (transactional and code == KafkaError._FATAL):
        return Fenced(f"fenced while {doing}: a newer owner of the transactional id has started")
    if code in _UNKNOWN:
        return UserError(f"unknown topic or partition while {doing}", hint=error.str())
    if code in _GONE:
        return ExternalError(
            f"records are gone while {doing}: {error.str()}",
            retryable=False,
            hint="the topic's retention removed them before they were read, or the topic was re-created",
        )
    return ExternalError(f"kafka failed while {doing}: {error.str()}", retryable=True)


def records_gone_error(topic: str, partition: int, first: int, upto: int) -> ExternalError:
    """The error for the records from offset `first` to `upto` (exclusive), which a topic no longer has.

    >>> str(records_gone_error("bids", 0, 5, 9)).split(";")[0]
    'offsets 5 to 8 of topic "bids" partition 0 are gone: retention or a deletion removed them'
    """
    return ExternalError(
        f'offsets {first} to {upto - 1} of topic "{topic}" partition {partition} are gone: '
        "retention or a deletion removed them",
        retryable=False,
        hint="restore a checkpoint whose positions are later, or DROP what needs them and create it again: "
        "it then begins at the records that are left",
    )


def is_gone(error: KafkaError) -> bool:
    """Whether an error says that a partition does not have the requested offset."""
    return error.code() in _GONE


def kafka_error(error: BaseException) -> KafkaError | None:
    """The client's error in an exception of confluent-kafka; None for other exceptions. If a producer is fenced while
    it reports deliveries, the client raises a SystemError, whose cause is the KafkaException.

    >>> kafka_error(KafkaException(KafkaError(KafkaError._FENCED))).code() == KafkaError._FENCED
    True
    >>> kafka_error(SystemError("of the interpreter"))
    """
    cause: BaseException | None = error
    while isinstance(cause, SystemError):
        cause = cause.__cause__
    return cause.args[0] if isinstance(cause, KafkaException) else None


@contextmanager
def translated(doing: str, *, transactional: bool = False) -> Iterator[None]:
    """Raises this project's errors instead of KafkaException, and of TimeoutError if an answer does not come."""
    try:
        yield
    except TimeoutError as error:
        raise ExternalError(f"kafka did not answer while {doing}", retryable=True) from error
    except (KafkaException, SystemError) as error:
        if (cause := kafka_error(error)) is None:
            raise
        raise translate(cause, doing, transactional=transactional) from error
