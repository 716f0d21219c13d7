"""Follows a result, and writes its changes to a target, each exactly once."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from connectors.tables.sink import Batch, Position, PositionLost, SinkResult
from connectors.tables.sink_retries import RetriedSink
from connectors.tables.sink_targets import is_lake, open_sink
from dsms.client.frames import schema_of
from operators.core.errors import ExternalError

if TYPE_CHECKING:
    from connectors.tables.sink import Sink
    from dsms.client import Client
    from dsms.client.changes import Changes
    from dsms.client.documents import Change

#: The most changes in one write to a database or a Parquet file, and the time between two writes in seconds.
MOST, EVERY_S = 10_000, 1.0
#: The same for Iceberg and Delta tables, where a write costs as much as the files that it touches.
LAKE_MOST, LAKE_EVERY_S = 100_000, 60.0
_IDLE_S = 600.0
#: How long a sink may be stopped: Kafka keeps tombstones of keyed results for a day (`delete.retention.ms`).
MAX_STOPPED_H = 23


@dataclass(frozen=True)
class SinkTask:
    """The result to follow, by its name, and where to write it. The target knows the result as `known_as`, by default
    by its name. `every_s`: seconds between two writes; None is the default of the target. `restart`: the target is
    emptied first."""

    result: str
    target: str
    table: str | None = None
    changes: bool = False
    every_s: float | None = None
    known_as: str | None = None
    restart: bool = False
    #: Whether to wait for later changes at the end of the result.
    follow: bool = True


class Listener(Protocol):
    """Learns how the work proceeds."""

    def cleared(self) -> None:
        """The target is empty."""
        ...

    def starts(self, after: Position | None) -> None:
        """The changes after this position follow; None: all changes."""
        ...

    def written(self, count: int, token: str, /) -> None:
        """The target has `count` more changes, and this position. A count of 0 confirms the same position."""
        ...

    def fails(self, error: ExternalError, pause_s: float) -> None:
        """A write has failed, and is tried again after a pause."""
        ...


def follow(api: Client, task: SinkTask, listener: Listener) -> None:
    """Writes the changes of the result until the feed ends. Raises PositionLost if the target must be emptied first,
    other UserErrors if somebody has to act, and ExternalError if trying again may help."""
    document = api.describe(task.result)
    result, keyed = _result(document, task.known_as), bool(document["key"])
    most, every_s = (LAKE_MOST, LAKE_EVERY_S) if is_lake(task.target) else (MOST, EVERY_S)
    sink = RetriedSink(
        lambda: open_sink(task.target, result, task.table, changes=task.changes), _pausing(listener.fails)
    )
    try:
        if task.restart:
            sink.clear()
            listener.cleared()
        after = position_of(sink, keyed=keyed)
        listener.starts(sink.position())
        parts = api.changes(task.result, after, follow=task.follow)
        every_s = every_s if task.every_s is None else task.every_s
        _write(parts, sink, batched(parts.batches(), every_s, most), listener, after)
    finally:
        sink.close()


def position_of(sink: Sink, *, keyed: bool, now: float | None = None) -> str | None:
    """The token after which a sink continues; None at the beginning. Raises PositionLost if the sink of a keyed result
    was stopped for so long that Kafka may have removed tombstones of rows that the sink still holds."""
    position = sink.position()
    if position is None:
        return None
    stopped_h = ((time.time() if now is None else now) - position.confirmed_at) / 3600
    if keyed and stopped_h > MAX_STOPPED_H:
        raise PositionLost(
            f"the sink was stopped for {stopped_h:.0f} hours, but Kafka keeps deletions for only {MAX_STOPPED_H + 1}"
        )
    return position.token


def _pausing(fails: Callable[[ExternalError, float], None]) -> Callable[[ExternalError, float], None]:
    def pause(error: ExternalError, pause_s: float) -> None:
        fails(error, pause_s)
        time.sleep(pause_s)

    return pause


def _result(known: dict[str, Any], known_as: str | None) -> SinkResult:
    columns = [column["name"] for column in known["columns"]], [column["type"] for column in known["columns"]]
    return SinkResult(known_as or str(known["name"]), schema_of(*columns), tuple(known["key"]))


def _write(
    changes: Changes, sink: Sink, batches: Iterator[list[Change]], listener: Listener, token: str | None
) -> None:
    for part in batches:
        if part:
            token = part[-1].token
            sink.take(Batch([each.op for each in part], [each.ts for each in part], changes.rows_of(part)), token)
        else:
            sink.confirm()
        if token is not None:
            listener.written(len(part), token)


def batched(parts: Iterator[list[Change]], every_s: float, most: int = MOST) -> Iterator[list[Change]]:
    """Merges the parts that arrive within `every_s` seconds into one list, which ends earlier at `most` changes. Yields
    an empty list when no change has arrived for ten minutes.

    >>> list(batched(iter([[1], [2, 3], [4]]), 60))
    [[1, 2, 3, 4]]
    """
    waiting: queue.Queue[list[Change] | Exception | None] = queue.Queue(maxsize=100)
    threading.Thread(target=_fill, args=(waiting, parts), name="changes", daemon=True).start()
    taken: list[Change] = []
    due = 0.0
    while True:
        try:
            part = waiting.get(timeout=max(0.0, due - time.monotonic()) if taken else _IDLE_S)
        except queue.Empty:
            part = []
            if not taken:
                yield taken
                continue
        if isinstance(part, list):
            due = due if taken else time.monotonic() + every_s
            taken += part
        ended = not isinstance(part, list)
        if taken and (ended or len(taken) >= most or time.monotonic() >= due):
            yield taken
            taken = []
        if isinstance(part, Exception):
            raise part
        if part is None:
            return


def _fill(waiting: queue.Queue[list[Change] | Exception | None], parts: Iterator[list[Change]]) -> None:
    try:
        for part in parts:
            waiting.put(part)
        waiting.put(None)
    except Exception as error:  # noqa: BLE001 (raised where the changes are taken)
        waiting.put(error)
