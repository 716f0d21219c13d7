"""HTTP connections that are closed when their client does not send a request in time."""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from dsms.coordinator.http.waiting_connections import WaitingConnections

#: The most seconds until the head of a request is complete, and between two pieces of its body.
HEAD_S, BODY_S = 15.0, 30.0
#: The most connections, in all, on which the head of a request is not complete yet.
MAX_ARRIVING = 500


class TimedConnection(H11Protocol):
    """Closes the connection if the client does not send a request, or the rest of one, in time. So a silent client
    cannot keep a connection open for ever. The time for a body does not run out while the server itself has paused
    reading."""

    waiting: WaitingConnections[TimedConnection]
    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Waits for the first request."""
        super().connection_made(transport)
        self._await_client()

    def data_received(self, data: bytes) -> None:
        """Takes the received data, and waits for the rest."""
        super().data_received(data)
        self._await_client()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Waits for the next request if the connection is kept alive, or for the rest of a request that has begun."""
        super().on_response_complete()
        if not self.transport.is_closing():
            self._await_client()

    def end(self) -> None:
        """Closes the connection."""
        self._stop_waiting()
        self.transport.abort()

    def _await_client(self) -> None:
        """Sets the time by which the client has to send more."""
        state = self.conn.their_state
        if state is h11.IDLE and (self.cycle is None or self.cycle.response_complete):
            self._await_head()
        else:
            self._stop_waiting()
            if state is h11.SEND_BODY:
                self._waiting = self.loop.call_later(BODY_S, self._end_unless_paused)

    def _await_head(self) -> None:
        """Sets one deadline for the whole head: bytes that arrive one by one do not extend it."""
        if self not in self.waiting:
            self._stop_waiting()
            self._waiting = self.loop.call_later(HEAD_S, self.end)
            self.waiting.add(self)

    def _end_unless_paused(self) -> None:
        if self.flow.read_paused:
            self._waiting = self.loop.call_later(BODY_S, self._end_unless_paused)
        else:
            self.end()

    def _stop_waiting(self) -> None:
        self.waiting.remove(self)
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None


def timed_connections() -> type[asyncio.Protocol]:
    """The protocol class of one server. Its connections share one limit of waiting connections."""
    waiting: WaitingConnections[TimedConnection] = WaitingConnections(MAX_ARRIVING, TimedConnection.end)
    return type("Connection", (TimedConnection,), {"waiting": waiting})
