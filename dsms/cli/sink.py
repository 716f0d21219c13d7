"""`dsms sink`: keeps a result in a database or in files, each change once."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dsms.cli.cluster import DEFAULT_DATA_DIR, Coordinator, DataDir, connect
from dsms.cli.output import note
from operators.core.errors import UserError

if TYPE_CHECKING:
    from connectors.tables.sink import Sink
    from dsms.client.changes import Changes
    from dsms.client.documents import Change

#: The most changes that are written at once.
MOST = 10_000
_SAID_EVERY_S, _IDLE_S = 10.0, 600.0
#: How long a sink may be away: Kafka keeps deletions of keyed results for a day (`delete.retention.ms`).
LONGEST_AWAY_H = 23


def sink(  # noqa: PLR0913 (the options of a command line)
    name: Annotated[str, typer.Argument(help="Name of the view, query or table.")],
    target: Annotated[
        str,
        typer.Argument(
            envvar="DSMS_SINK",
            help="URL of a database, as SQLAlchemy takes it, for the rows; or a directory, for the changes as Parquet.",
        ),
    ],
    table: Annotated[
        str | None, typer.Option(help="Name of the table in the database; by default that of the result.")
    ] = None,
    every: Annotated[
        float, typer.Option(min=0.0, help="Seconds between two writes, unless there is much to write.")
    ] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="End at the present end of the result.")] = False,
    anew: Annotated[
        bool, typer.Option("--anew", help="Empty the table or the directory first, and begin again.")
    ] = False,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    coordinator: Coordinator = None,
) -> None:
    """Keep a result in a table of a database, or its changes in Parquet files: each change once, whatever is killed.

    Example: dsms sink hot sqlite:////tmp/hot.db

    Example: dsms sink hot ./changes --every 60
    """
    with connect(coordinator, data_dir) as api:
        document = api.describe(name)
        kept = _sink(document, target, table)
        try:
            if anew:
                kept.clear()
            after = position_of(kept, keyed=bool(document["key"]))
            note(f'"{name}" goes on behind {after}' if after else f'"{name}" from its first change')
            _keep(api.changes(name, after, follow=not once), kept, every)
        finally:
            kept.close()


def position_of(kept: Sink, *, keyed: bool, now: float | None = None) -> str | None:
    """The token behind which a sink goes on; None at the beginning. Raises UserError where it was away for so long that
    Kafka may have removed deletions of rows that it keeps."""
    position = kept.position()
    if position is None:
        return None
    away_h = ((time.time() if now is None else now) - position.confirmed_at) / 3600
    if keyed and away_h > LONGEST_AWAY_H:
        raise UserError(
            f"the sink was away for {away_h:.0f} hours, and Kafka keeps deletions for {LONGEST_AWAY_H + 1} only",
            hint="begin again with --anew",
        )
    return position.token


def _sink(known: dict[str, Any], target: str, table: str | None) -> Sink:
    """What keeps the result. Its libraries are slow to import, and few other commands need them."""
    from connectors.tables.sink import SinkResult
    from connectors.tables.sink_database import DatabaseSink
    from connectors.tables.sink_files import ParquetSink
    from dsms.client.frames import schema_of

    if "://" not in target:
        if table is not None:
            raise UserError("--table is for databases", hint="leave it out")
        return ParquetSink(Path(target), str(known["name"]))
    columns = [column["name"] for column in known["columns"]], [column["type"] for column in known["columns"]]
    result = SinkResult(str(known["name"]), schema_of(*columns), tuple(known["key"]))
    return DatabaseSink(target, table or result.name, result)


def _keep(changes: Changes, kept: Sink, every_s: float) -> None:
    from connectors.tables.sink import Batch

    written, said = 0, time.monotonic()
    for part in gathered(changes.together(), every_s):
        if not part:
            kept.confirm()
            continue
        batch = Batch([each.op for each in part], [each.ts for each in part], changes.rows_of(part))
        kept.take(batch, part[-1].token)
        written += len(part)
        if time.monotonic() - said >= _SAID_EVERY_S:
            said = time.monotonic()
            note(f"{written} changes written")
    note(f"{written} change{'' if written == 1 else 's'} written")


def gathered(parts: Iterator[list[Change]], every_s: float, most: int = MOST) -> Iterator[list[Change]]:
    """The changes of several parts as one, of those that come within a time, unless they are many; nothing where
    nothing comes for ten minutes.

    >>> list(gathered(iter([[1], [2, 3], [4]]), 60))
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
