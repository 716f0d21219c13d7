"""`dsms catch-up`: waits until queries have read what their sources hold, and shows how far they are."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from dsms.cli.cluster import DEFAULT_DATA_DIR, Coordinator, DataDir, connect
from dsms.cli.output import note
from operators.core.errors import ExternalError, UserError

_POLL_S = 0.5
Describe = Callable[[str], dict[str, Any]]


def catch_up(
    names: Annotated[list[str] | None, typer.Argument(help="Views or queries; all by default.")] = None,
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
        note(f"{', '.join(wanted)}: caught up" if wanted else "no query runs")


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
    """Draws a bar for each query until all have caught up. Raises UserError for one that will not, and ExternalError
    when the time of the deadline has come."""
    tasks = {name: bars.add_task(name, total=100, rate="") for name in names}
    while tasks:
        for name, task in list(tasks.items()):
            percent, rate = _reached(describe(name))
            bars.update(task, completed=percent, rate=rate)
            if percent == 100:
                del tasks[name]
        if tasks:
            if deadline is not None and time.monotonic() > deadline:
                raise ExternalError(f"not caught up in time: {', '.join(tasks)}", retryable=True)
            time.sleep(pause_s)


def _reached(query: dict[str, Any]) -> tuple[int, str]:
    """How far a query has read, in percent, and how quickly it reads."""
    state, progress = str(query.get("state", "")), query.get("progress")
    if query.get("paused"):
        raise UserError(f'"{query["name"]}" is paused', hint="RESUME it")
    if state.startswith("failed"):
        raise UserError(f'"{query["name"]}" has {state}')
    if progress is None:
        return 0, state
    if not progress["catching_up"]:
        return 100, ""
    left = progress["seconds_left"]
    rate = f"{progress['records_per_second']:,.0f} records/s"
    return min(99, progress["percent"]), rate if left is None else f"{rate}, about {left:.0f} s left"
