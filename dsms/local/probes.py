"""Readiness probes, which call a server like its clients do."""

import redis
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

PROBE_TIMEOUT_S = 1.0


class KafkaProbe:
    """Whether the cluster has at least one broker; the AdminClient is kept until the answer is yes."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._client: AdminClient | None = None

    def __call__(self) -> bool:
        client = self._client or AdminClient(_quiet(self._address))
        self._client = client
        try:
            ready = bool(client.list_topics(timeout=PROBE_TIMEOUT_S).brokers)
        except KafkaException:
            return False
        if ready:
            self._client = None
        return ready


def redis_answers(host: str, port: int) -> bool:
    """Whether the server answers PING. (It does not while it loads its data.)"""
    with redis.Redis(host=host, port=port, socket_timeout=PROBE_TIMEOUT_S) as client:
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False


def _quiet(address: str) -> dict[str, str | int]:
    return {
        "bootstrap.servers": address,
        "log_level": 0,
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 50,
        "socket.connection.setup.timeout.ms": 1000,
    }
