"""The connections to brokers on which readers and writers send single requests of Kafka's protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from kafka.future import Future

from operators.core.errors import ExternalError


class Unanswered(ExternalError):
    """A broker did not answer a request in time. It may still receive the request."""


class Connections(Protocol):
    """Connections to the brokers of a cluster, for use by one thread. `BrokerConnections` implements it with sockets; a
    simulation has its own implementation.
    """

    def send(self, node: int, request: Any) -> Future:
        """Sends a request to a broker. The future is completed only during a later call that polls, such as `wait`."""
        ...

    def send_to_any(self, request: Any) -> Future:
        """Sends a request to any broker, once one is known."""
        ...

    def flush_nowait(self) -> None:
        """Hands pending requests to the operating system, without waiting."""
        ...

    def wait(self, future: Future, timeout_s: float) -> Any:
        """Waits for the response and returns it. Raises kafka-python's error if the request failed.

        If no response comes in time, closes the connection and raises Unanswered. The next request to this broker opens
        a new connection.
        """
        ...

    def leader(self, topic: str, partition: int, *, refreshed: bool = False) -> int | None:
        """The broker that leads a partition; None if it has no leader or does not exist. If `refreshed`, the brokers
        are asked even if a leader is known. Raises ExternalError if no broker answers.
        """
        ...

    def partitions(self, topic: str, *, refreshed: bool = False) -> int | None:
        """The number of partitions of a topic; None if it does not exist. Raises ExternalError if no broker answers."""
        ...

    def look_up(self, topics: Iterable[str]) -> None:
        """Looks up the partitions of all unknown topics at once. Raises ExternalError if no broker answers."""
        ...

    def finalized(self, feature: str) -> int:
        """The version of one of Kafka's features, such as `transaction.version`, that all brokers of the cluster use.

        0 if the cluster does not have the feature. Raises ExternalError if no broker answers."""
        ...

    def with_retries(self, attempt: Callable[[], Any], doing: str) -> Any:
        """Calls `attempt` until it succeeds; returns its result. It is repeated after a retriable error. Raises
        ExternalError after 30 s, and at once for other errors of Kafka; the message says what the system was `doing`.
        """
        ...

    def pause(self, milliseconds: float = ...) -> None:
        """Waits for a moment, during which brokers and pending connections make progress."""
        ...

    def close(self) -> None:
        """Closes all connections."""
        ...
