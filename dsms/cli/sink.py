"""`dsms sink`: writes a result to a database, an Iceberg or Delta table or to files, each change exactly once."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from connectors.credentials.secrets import resolved_url
from dsms.cli.cluster import DEFAULT_DATA_DIR, Coordinator, DataDir, connect
from dsms.cli.object_names import object_names
from dsms.cli.output import note
from operators.core.errors import ExternalError, UserError

if TYPE_CHECKING:
    from connectors.tables.sink import Sink, SinkResult
    from dsms.client.changes import Changes
    from dsms.client.documents import Change

#: The most changes in one write to a database or a Parquet file, and the time between two writes in seconds.
MOST, EVERY_S = 10_000, 1.0
#: The same for Iceberg and Delta tables, where a write costs as much as the files that it touches.
LAKE_MOST, LAKE_EVERY_S = 100_000, 60.0
_SAID_EVERY_S, _IDLE_S = 10.0, 600.0
#: How long a sink may be stopped: Kafka keeps tombstones of keyed results for a day (`delete.retention.ms`).
MAX_STOPPED_H = 23


def sink(  # noqa: PLR0913 (the options of a command line)
    name: Annotated[
        str, typer.Argument(help="Name of the view, query or table.", autocompletion=object_names("queries", "streams"))
    ],
    target: Annotated[
        str,
        typer.Argument(
            envvar="DSMS_SINK",
            help="For the rows: the SQLAlchemy URL of a database, iceberg:DIRECTORY, iceberg://CATALOG, or "
            "delta:DIRECTORY_OR_URL. For the changes as Parquet files: a directory.",
        ),
    ],
    table: Annotated[
        str | None,
        typer.Option(help="Name of the table in the database or Iceberg catalog; by default that of the result."),
    ] = None,
    changes: Annotated[
        bool, typer.Option("--changes", help="Keep all changes, instead of the rows, in the Iceberg or Delta table.")
    ] = False,
    every: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help=f"Seconds between two writes; less if many changes wait. By default {EVERY_S:g}, or {LAKE_EVERY_S:g} "
            "for Iceberg and Delta, where each write commits new files.",
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Stop at the current end of the result.")] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Empty the table or the directory first, and begin again.")
    ] = False,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    coordinator: Coordinator = None,
) -> None:
    """Keep a result in a database, Iceberg or Delta table, or its changes in Parquet files, each exactly once.

    Example: dsms sink hot sqlite:////tmp/hot.db

    Example: dsms sink hot iceberg:./warehouse --table shop.hot

    Example: dsms sink hot delta:s3://bucket/hot --every 300

    Example: dsms sink hot ./changes --every 60
    """
    from connectors.tables.sink_retries import RetriedSink
    from connectors.tables.sink_targets import is_lake, open_sink

    target = resolved_url(target, os.environ)
    most, every_s = (LAKE_MOST, LAKE_EVERY_S) if is_lake(target) else (MOST, EVERY_S)
    every_s = every_s if every is None else every
    with connect(coordinator, data_dir) as api:
        document = api.describe(name)
        result = _result(document)
        sink_ = RetriedSink(lambda: open_sink(target, result, table, changes=changes), _pause)
        try:
            if restart:
                sink_.clear()
            after = position_of(sink_, keyed=bool(document["key"]))
            note(f'"{name}" continues after {after}' if after else f'"{name}" starts at its first change')
            parts = api.changes(name, after, follow=not once)
            _write_changes(parts, sink_, batched(parts.batches(), every_s, most))
        finally:
            sink_.close()


def position_of(sink_: Sink, *, keyed: bool, now: float | None = None) -> str | None:
    """The token after which a sink continues; None at the beginning. Raises UserError if the sink of a keyed result was
    stopped for so long that Kafka may have removed tombstones of rows that the sink still holds."""
    position = sink_.position()
    if position is None:
        return None
    stopped_h = ((time.time() if now is None else now) - position.confirmed_at) / 3600
    if keyed and stopped_h > MAX_STOPPED_H:
        raise UserError(
            f"the sink was stopped for {stopped_h:.0f} hours, but Kafka keeps deletions for only {MAX_STOPPED_H + 1}",
            hint="start again with --restart",
        )
    return position.token


def _pause(error: ExternalError, pause_s: float) -> None:
    note(f"{error}; trying again in {pause_s:g} s")
    time.sleep(pause_s)


def _result(known: dict[str, Any]) -> SinkResult:
    from connectors.tables.sink import SinkResult
    from dsms.client.frames import schema_of

    columns = [column["name"] for column in known["columns"]], [column["type"] for column in known["columns"]]
    return SinkResult(str(known["name"]), schema_of(*columns), tuple(known["key"]))


def _write_changes(changes: Changes, sink_: Sink, batches: Iterator[list[Change]]) -> None:
    from connectors.tables.sink import Batch

    written, said = 0, time.monotonic()
    for part in batches:
        if not part:
            sink_.confirm()
            continue
        batch = Batch([each.op for each in part], [each.ts for each in part], changes.rows_of(part))
        sink_.take(batch, part[-1].token)
        written += len(part)
        if time.monotonic() - said >= _SAID_EVERY_S:
            said = time.monotonic()
            note(f"{written} changes written")
    note(f"{written} change{'' if written == 1 else 's'} written")


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
