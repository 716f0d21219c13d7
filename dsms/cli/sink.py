"""`dsms sink`: writes a result to a database, an Iceberg or Delta table or to files, each change exactly once."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.credentials.secrets import resolved_url
from dsms.cli.cluster import DEFAULT_DATA_DIR, Coordinator, DataDir, connect
from dsms.cli.object_names import object_names
from dsms.cli.output import note
from operators.core.errors import ExternalError

if TYPE_CHECKING:
    from connectors.tables.sink import Position

_SAID_EVERY_S = 10.0


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
            help="Seconds between two writes; less if many changes wait. By default 1, or 60 "
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
    from dsms.sinks.following import SinkTask, follow

    target = resolved_url(target, os.environ)
    task = SinkTask(name, target, table, changes, every, restart=restart, follow=not once)
    with connect(coordinator, data_dir) as api:
        notes = _Notes(name)
        follow(api, task, notes)
        notes.end()


class _Notes:
    """Says on the terminal how a sink proceeds."""

    def __init__(self, name: str) -> None:
        self._name, self._written, self._said = name, 0, time.monotonic()

    def cleared(self) -> None:
        """Says nothing."""

    def starts(self, after: Position | None) -> None:
        """Says where it starts."""
        note(f'"{self._name}" continues after {after.token}' if after else f'"{self._name}" starts at its first change')

    def written(self, count: int, _token: str) -> None:
        """Says every ten seconds how many changes are written."""
        self._written += count
        if time.monotonic() - self._said >= _SAID_EVERY_S:
            self._said = time.monotonic()
            note(f"{self._written} changes written")

    def fails(self, error: ExternalError, pause_s: float) -> None:
        """Says why a write is tried again."""
        note(f"{error}; trying again in {pause_s:g} s")

    def end(self) -> None:
        """Says how many changes were written."""
        note(f"{self._written} change{'' if self._written == 1 else 's'} written")
