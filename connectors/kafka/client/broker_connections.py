"""Connections to brokers for single requests of Kafka's protocol, based on kafka-python.

kafka-python connects, handles TLS and SASL, negotiates the versions of requests, and finds leaders. No thread runs in
the background. Sockets are read only during calls that poll them, such as `wait`; until then, responses stay in the
operating system's buffers.
"""

from __future__ import annotations

import logging
import ssl
import time
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from kafka import TopicPartition
from kafka.errors import (
    AuthorizationError,
    KafkaError,
    RequestTimedOutError,
    RetriableError,
    SaslAuthenticationFailedError,
    UnknownBrokerIdError,
    UnsupportedVersionError,
)
from kafka.future import Future
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.metadata import ApiVersionsRequest

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.connections import Connections, Unanswered
from operators.core.errors import ExternalError

#: kafka-python's names of settings by librdkafka's names, which users write.
_NAMES = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "client.id": "client_id",
}
_TLS = {
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
    "enable.ssl.certificate.verification",
}
_MECHANISMS = {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}
#: The timeout of a request in kafka-python: the time for which a broker keeps an idle connection by default. Callers of
#: `wait` set shorter timeouts.
_RESPONSE_MS = 600_000
#: The time for which brokers are looked up.
CONNECT_S = 30.0
_PAUSE_MS = 50
_LARGEST_RESPONSE = 1 << 30
#: The client's name in a request for features; brokers refuse a request without a name.
_SOFTWARE = {"client_software_name": "dsms", "client_software_version": "1"}

logging.getLogger("kafka").setLevel(logging.CRITICAL)  # failures are raised as errors, so they need no log


def supported(settings: KafkaSettings) -> bool:
    """Whether BrokerConnections supports all of the settings; confluent-kafka supports more.

    >>> supported(KafkaSettings("k:9092", {"security.protocol": "SSL"}))
    True
    """
    return not unsupported(settings)


def unsupported(settings: KafkaSettings) -> list[str]:
    """The names of the settings that BrokerConnections does not support.

    >>> unsupported(KafkaSettings("k:9092", {"sasl.mechanism": "GSSAPI", "socket.keepalive.enable": "true"}))
    ['sasl.mechanism', 'socket.keepalive.enable']
    """
    mechanism = _translated(settings.properties).get("sasl_mechanism")
    wrong = set() if mechanism in (None, *_MECHANISMS) else {"sasl.mechanism", "sasl.mechanisms"}
    return [name for name in settings.properties if name in wrong or name not in _NAMES.keys() | _TLS]


def connect(settings: KafkaSettings) -> Connections:
    """New connections to the brokers: those that the settings open themselves, else over the network."""
    return settings.connections() or BrokerConnections(settings)


class BrokerConnections:
    """Connections to the brokers of a cluster, opened on demand. For use by one thread."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._net = NetworkSelector(slow_task_threshold_secs=0)
        self._manager = KafkaConnectionManager(
            self._net,
            bootstrap_servers=settings.bootstrap.split(","),
            request_timeout_ms=_RESPONSE_MS,
            receive_message_max_bytes=_LARGEST_RESPONSE,
            ssl_context=_tls(settings.properties),
            **_translated(settings.properties),
        )
        self._closed = weakref.finalize(self, _close, self._manager, self._net)
        self._closed.atexit = False

    def send(self, node: int, request: Any) -> Future:
        """Sends a request to a broker. The future is completed only during a later call that polls, such as `wait`."""
        return self._manager.send(request, node_id=node)

    def send_to_any(self, request: Any) -> Future:
        """Sends a request to any broker, once one is known."""
        if not self._manager.cluster.brokers():
            self.with_retries(lambda: self._run(self._refresh), "connecting")
        return self._manager.send(request)

    def flush_nowait(self) -> None:
        """Hands pending requests to the operating system, without waiting."""
        self._net.poll(timeout_ms=0)

    def wait(self, future: Future, timeout_s: float) -> Any:
        """Waits for the response and returns it. Raises kafka-python's error if the request failed.

        If no response comes in time, closes the connection and raises Unanswered. The next request to this broker opens
        a new connection: a broker whose machine has lost power, or a firewall that forgets a connection, closes none.
        """
        self._net.poll(timeout_ms=timeout_s * 1000, future=future)
        if not future.is_done:
            self._close_silent(lambda connection: any(future in asked for asked in connection.in_flight_requests))
            raise Unanswered(f"kafka did not answer within {timeout_s:g} s", retryable=True)
        if future.exception is not None:
            raise future.exception
        return future.value

    def leader(self, topic: str, partition: int, *, refreshed: bool = False) -> int | None:
        """The broker that leads a partition; None if it has no leader or does not exist. If `refreshed`, the brokers
        are asked even if a leader is known. Raises ExternalError if no broker answers.
        """
        cluster, wanted = self._manager.cluster, TopicPartition(topic, partition)
        known = cluster.leader_for_partition(wanted)
        if known in (None, -1) or refreshed:
            cluster.add_topic(topic)
            self.with_retries(lambda: self._run(self._refresh), "looking for the leader of a partition")
            known = cluster.leader_for_partition(wanted)
        return None if known == -1 else known

    def partitions(self, topic: str, *, refreshed: bool = False) -> int | None:
        """The number of partitions of a topic; None if it does not exist. Raises ExternalError if no broker answers."""
        cluster = self._manager.cluster
        known = cluster.partitions_for_topic(topic)
        if not known or refreshed:
            cluster.add_topic(topic)
            self.with_retries(lambda: self._run(self._refresh), f'looking up topic "{topic}"')
            known = cluster.partitions_for_topic(topic)
        return len(known) if known else None

    def look_up(self, topics: Iterable[str]) -> None:
        """Looks up the partitions of all unknown topics at once. Raises ExternalError if no broker answers.

        Each answer repeats all topics that were looked up before, so one request for each of n topics would take time
        proportional to n².
        """
        cluster = self._manager.cluster
        unknown = [topic for topic in topics if not cluster.partitions_for_topic(topic)]
        for topic in unknown:
            cluster.add_topic(topic)
        if unknown:
            self.with_retries(lambda: self._run(self._refresh), f"looking up {len(unknown)} topics")

    def finalized(self, feature: str) -> int:
        """The version of one of Kafka's features, such as `transaction.version`, that all brokers of the cluster use.

        0 if the cluster does not have the feature. Raises ExternalError if no broker answers."""
        levels = self.with_retries(self._features, "asking for the features of the cluster")
        return int(levels.get(feature, 0))

    def _features(self) -> dict[str, int]:
        try:
            answer = self.wait(self.send_to_any(ApiVersionsRequest(**_SOFTWARE, min_version=3)), CONNECT_S)
        except UnsupportedVersionError:  # brokers before 2.4
            return {}
        return {feature.name: feature.max_version_level for feature in answer.finalized_features or ()}

    def with_retries(self, attempt: Callable[[], Any], doing: str) -> Any:
        """Calls `attempt` until it succeeds; returns its result. It is repeated after a retriable error, or if no
        broker is known. Raises ExternalError after 30 s, and at once for other errors of Kafka; the message says what
        the system was `doing`.
        """
        return retried(attempt, doing, self.pause)

    def pause(self, milliseconds: float = _PAUSE_MS) -> None:
        """Waits for a moment, during which brokers and pending connections make progress."""
        self._net.poll(timeout_ms=milliseconds, future=Future())

    def close(self) -> None:
        """Closes all connections. They are also closed when this object is garbage-collected."""
        self._closed()

    async def _refresh(self) -> None:
        """Looks up brokers and topics again. If no broker answers in time, closes all connections that wait for one."""
        if not self._manager.bootstrapped:
            await self._manager.bootstrap_async(timeout_ms=CONNECT_S * 1000)
        late = self._net.call_later(CONNECT_S, lambda: self._close_silent(lambda each: bool(each.in_flight_requests)))
        try:
            await self._manager.cluster.refresh_metadata()
        finally:
            self._net.cancel(late)

    def _close_silent(self, silent: Callable[[Any], bool]) -> None:
        """Closes connections. Their requests fail, and the brokers are looked up again."""
        for connection in filter(silent, self._manager.least_used_connections()):
            connection.close(RequestTimedOutError())

    def _run(self, coroutine: Callable[[], Any]) -> Any:
        return self._net.run(coroutine)


def retried(attempt: Callable[[], Any], doing: str, pause: Callable[[], object]) -> Any:
    """The law of `Connections.with_retries`; `pause` waits before the next attempt."""
    deadline = time.monotonic() + CONNECT_S
    while True:
        try:
            return attempt()
        except (SaslAuthenticationFailedError, AuthorizationError) as error:
            raise ExternalError(f"kafka refused the credentials while {doing}: {error}") from error
        except (RetriableError, UnknownBrokerIdError) as error:
            if time.monotonic() > deadline:
                raise ExternalError(f"kafka failed while {doing}: {error}", retryable=True) from error
            pause()
        except KafkaError as error:
            raise ExternalError(f"kafka failed while {doing}: {error}", retryable=True) from error


def _close(manager: KafkaConnectionManager, net: NetworkSelector) -> None:
    manager.close()
    net.close()


def _translated(properties: dict[str, str]) -> dict[str, str]:
    translated = {_NAMES[name]: value for name, value in properties.items() if name in _NAMES}
    if "security_protocol" in translated:
        translated["security_protocol"] = translated["security_protocol"].upper()
    return translated


def _tls(properties: dict[str, str]) -> ssl.SSLContext | None:
    """The TLS context for the settings; None without TLS."""
    if "SSL" not in properties.get("security.protocol", "").upper():
        return None
    context = ssl.create_default_context(cafile=properties.get("ssl.ca.location"), cadata=properties.get("ssl.ca.pem"))
    context.check_hostname = properties.get("ssl.endpoint.identification.algorithm", "https") != "none"
    if properties.get("enable.ssl.certificate.verification", "true") == "false":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate := properties.get("ssl.certificate.location"):
        context.load_cert_chain(certificate, properties.get("ssl.key.location"), properties.get("ssl.key.password"))
    return context
