"""The error codes of Kafka's protocol that simulated brokers answer."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError

NONE: Final[int] = 0
OFFSET_OUT_OF_RANGE: Final[int] = KafkaError.OFFSET_OUT_OF_RANGE
UNKNOWN_TOPIC: Final[int] = KafkaError.UNKNOWN_TOPIC_OR_PART
NOT_LEADER: Final[int] = KafkaError.NOT_LEADER_FOR_PARTITION
LEADER_NOT_AVAILABLE: Final[int] = KafkaError.LEADER_NOT_AVAILABLE
TOO_LARGE: Final[int] = KafkaError.MSG_SIZE_TOO_LARGE
INVALID_TOPIC: Final[int] = KafkaError.TOPIC_EXCEPTION
NOT_ENOUGH_REPLICAS: Final[int] = KafkaError.NOT_ENOUGH_REPLICAS
TOPIC_EXISTS: Final[int] = KafkaError.TOPIC_ALREADY_EXISTS
INVALID_PARTITIONS: Final[int] = KafkaError.INVALID_PARTITIONS
INVALID_CONFIG: Final[int] = KafkaError.INVALID_CONFIG
INVALID_REQUEST: Final[int] = KafkaError.INVALID_REQUEST
INVALID_TIMESTAMP: Final[int] = KafkaError.INVALID_TIMESTAMP
INVALID_RECORD: Final[int] = KafkaError.INVALID_RECORD
UNSUPPORTED_VERSION: Final[int] = KafkaError.UNSUPPORTED_VERSION
COORDINATOR_LOADING: Final[int] = KafkaError.COORDINATOR_LOAD_IN_PROGRESS
COORDINATOR_NOT_AVAILABLE: Final[int] = KafkaError.COORDINATOR_NOT_AVAILABLE
NOT_COORDINATOR: Final[int] = KafkaError.NOT_COORDINATOR
OUT_OF_ORDER: Final[int] = KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
INVALID_EPOCH: Final[int] = KafkaError.INVALID_PRODUCER_EPOCH
INVALID_STATE: Final[int] = KafkaError.INVALID_TXN_STATE
INVALID_MAPPING: Final[int] = KafkaError.INVALID_PRODUCER_ID_MAPPING
INVALID_TIMEOUT: Final[int] = KafkaError.INVALID_TRANSACTION_TIMEOUT
CONCURRENT: Final[int] = KafkaError.CONCURRENT_TRANSACTIONS
COORDINATOR_FENCED: Final[int] = KafkaError.TRANSACTION_COORDINATOR_FENCED
NOT_ATTEMPTED: Final[int] = KafkaError.OPERATION_NOT_ATTEMPTED
FENCED: Final[int] = KafkaError.PRODUCER_FENCED
ABORTABLE: Final[int] = KafkaError.TRANSACTION_ABORTABLE


def name_of(code: int) -> str:
    """The name of an error code, for traces.

    >>> name_of(0), name_of(KafkaError.PRODUCER_FENCED)
    ('ok', 'PRODUCER_FENCED')
    """
    return "ok" if code == NONE else KafkaError(code).name()
