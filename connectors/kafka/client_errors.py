"""What the Kafka client's failures mean for a user at the command line."""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from operators.errors import DsmsError, ExternalError, UserError

_REFUSED = {
    KafkaError.UNKNOWN_TOPIC_OR_PART: "topic not found",
    KafkaError._UNKNOWN_TOPIC: "topic not found",
    KafkaError.TOPIC_ALREADY_EXISTS: "topic exists already",
    KafkaError.INVALID_PARTITIONS: "number of partitions is wrong",
    KafkaError.TOPIC_EXCEPTION: "topic name is wrong",
    KafkaError.MSG_SIZE_TOO_LARGE: "record is too large for the broker",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "not allowed on this topic",
}


def kafka_failure(what: str, error: KafkaError) -> DsmsError:
    """The error of our tree: refusals are the user's, everything else is Kafka's.

    >>> kafka_failure('topic "t"', KafkaError(KafkaError.TOPIC_ALREADY_EXISTS)).message
    'topic "t": topic exists already'
    """
    refused = _REFUSED.get(error.code())
    if refused:
        return UserError(f"{what}: {refused}")
    return ExternalError(
        f"{what}: kafka failed: {error.str()}", hint="is the broker running", retryable=error.retriable()
    )


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Raises the client's exceptions as errors of our tree."""
    try:
        yield
    except KafkaException as exception:
        raise kafka_failure(what, exception.args[0]) from exception
