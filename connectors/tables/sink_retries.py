"""Repeats the writes of a sink while its target fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from connectors.tables.sink import Batch, Position, Sink, overtaken_error, token_of
from operators.core.errors import ExternalError

_T = TypeVar("_T")
#: The pause after the first failure, in seconds; it doubles up to the longest.
FIRST_S, LONGEST_S = 1.0, 60.0


class RetriedSink:
    """A sink that is opened again after a failure that may pass, until a write succeeds. The position in the target
    says whether the failed write has taken effect, so no change is written twice. Failures of the first opening are
    raised, because then the target is usually wrong.

    >>> from connectors.tables.sink import SinkResult
    >>> from connectors.tables.sink_database import DatabaseSink
    >>> import pyarrow as pa
    >>> hot = SinkResult("hot", pa.schema([("room", pa.string())]), ("room",))
    >>> sink = RetriedSink(lambda: DatabaseSink("sqlite://", "hot", hot), lambda error, pause_s: None)
    >>> sink.take(Batch(["+"], [1], pa.table({"room": ["a"]})), "o3:1")
    >>> sink.position().token
    'o3:1'
    """

    def __init__(self, open_sink: Callable[[], Sink], pause: Callable[[ExternalError, float], None]) -> None:
        """`pause` is called after each failure, and waits for that many seconds."""
        self._open, self._pause = open_sink, pause
        self._sink: Sink | None = open_sink()

    def position(self) -> Position | None:
        """The position up to which changes were taken."""
        return self._repeated(lambda sink: sink.position())

    def take(self, changes: Batch, token: str) -> None:
        """Stores changes, like the sink; waits while the target fails."""
        before = token_of(self.position())

        def take(sink: Sink) -> None:
            found = token_of(sink.position())
            if found not in (before, token):
                raise overtaken_error("the target")
            if found == before:
                sink.take(changes, token)

        self._repeated(take)

    def confirm(self) -> None:
        """Records that there were no further changes until now."""
        self._repeated(lambda sink: sink.confirm())

    def clear(self) -> None:
        """Deletes all stored changes and the position."""
        self._repeated(lambda sink: sink.clear())

    def close(self) -> None:
        """Releases the sink's resources."""
        if self._sink is not None:
            self._sink.close()
            self._sink = None

    def _repeated(self, step: Callable[[Sink], _T]) -> _T:
        pause_s = FIRST_S
        while True:
            try:
                if self._sink is None:
                    self._sink = self._open()
                return step(self._sink)
            except ExternalError as error:
                if not error.retryable:
                    raise
                self.close()
                self._pause(error, pause_s)
                pause_s = min(2 * pause_s, LONGEST_S)
