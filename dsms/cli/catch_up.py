"""`dsms catch-up`: waits until queries have read all records of their sources, and shows their progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from dsms.cli.cluster import DEFAULT_DATA_DIR, Coordinator, DataDir, connect
from dsms.cli.object_names import object_names
from dsms.cli.output import note
from operators.core.errors import ExternalError, UserError

_POLL_S = 0.5
Describe = Callable[[str], dict[str, Any]]


def catch_up(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Views or queries; all by default.", autocompletion=object_names("queries")),
    ] = None,
    timeout: Annotated[float | None, typer.Option(min=0.0, help="Fail after this many seconds.")] = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    coordinator: Coordinator = None,
) -> None:
    """Wait until queries have caught up with their sources, after CREATE, REPAIR, RESUME or an outage.

    Example: dsms catch-up hot
    """
    with connect(coordinator, data_dir) as api:
        wanted = names or [query["name"] for query in api.queries() if not query["paused"]]
        with progress_bars() as bars:
            follow(wanted, api.describe, bars, None if timeout is None else time.monotonic() + timeout)
        note(f"{', '.join(wanted)}: caught up" if wanted else "no query is running")


def progress_bars() -> Progress:
    """Bars on standard error, which disappear when all is done."""
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[rate]}")
    return Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)


def follow(
    names: Iterable[str],
    describe: Describe,
    bars: Progress,
    deadline: float | None = None,
    pause_s: float = _POLL_S,
) -> None:
    """Draws a bar for each query until every query has read all records that its sources held when it was first
    polled. Raises UserError for a query that cannot catch up, and ExternalError once the deadline has passed."""
    tasks = {name: bars.add_task(name, total=None, completed=0, rate="") for name in names}
    ends: dict[str, int] = {}
    while tasks:
        for name, task in list(tasks.items()):
            query = describe(name)
            progress = _progress(query)
            if progress is None:
                bars.update(task, rate=str(query["state"]))
                continue
            read, unread = progress["read"], progress["unread"]
            end = ends.setdefault(name, read + unread)
            bars.update(task, total=end, completed=min(read, end), rate=_rate(progress))
            if read >= end:
                del tasks[name]
        if tasks:
            if deadline is not None and time.monotonic() > deadline:
                raise ExternalError(f"not caught up before the timeout: {', '.join(tasks)}", retryable=True)
            time.sleep(pause_s)


def _progress(query: dict[str, Any]) -> dict[str, Any] | None:
    """How far a query has read; None while no executor runs it. Raises UserError for an object that is not a query, and
    for a query that is paused, halted or failed."""
    state, name = str(query.get("state", "")), query["name"]
    if query.get("kind") not in ("view", "query"):
        raise UserError(f'"{name}" is a {query.get("kind")}', hint="give the names of views or queries")
    if state in ("paused", "halted"):
        raise UserError(
            f'"{name}" is {state}', hint="RESUME it" if state == "paused" else "CREATE OR REPLACE or DROP it"
        )
    if state.startswith("failed"):
        raise UserError(f'"{name}" has {state}')
    progress: dict[str, Any] | None = query.get("progress")
    return progress


def _rate(progress: dict[str, Any]) -> str:
    left, rate = progress["seconds_left"], f"{progress['records_per_second']:,.0f} records/s"
    return rate if left is None else f"{rate}, about {left:.0f} s left"
