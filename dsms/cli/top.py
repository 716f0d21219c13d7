"""`dsms top`: shows the executors and queries with their load and state, redrawn periodically."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import typer
from rich.console import Group
from rich.live import Live

from dsms.cli.cluster import DEFAULT_DATA_DIR, Coordinator, DataDir, OutputFormat, connect
from dsms.cli.output import print_json, stdout, table
from dsms.client.documents import Document
from dsms.model.sizes import format_size

Sort = Literal["load", "state", "unread", "rate", "name"]
_EXECUTORS = ("executor", "state", "fragments", "epoch", "in Redis", "on disk")
_QUERIES = ("query", "state", "unread", "records/s", "load", "state bytes", "frontier")
_SIZES = frozenset({"in Redis", "on disk", "state bytes"})


def top(  # noqa: PLR0913 (the options of a command line)
    sort: Annotated[
        Sort, typer.Option("--sort", help="Order of the queries: the greatest value first, or by name.")
    ] = "load",
    rows: Annotated[int, typer.Option("--rows", min=1, help="Number of queries to show.")] = 25,
    every: Annotated[float, typer.Option("--every", min=0.2, help="Seconds between two updates.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Show the current state once, and exit.")] = False,
    output: OutputFormat = "text",
    data_dir: DataDir = DEFAULT_DATA_DIR,
    coordinator: Coordinator = None,
) -> None:
    """Show executors and queries with their rates, load and state, until Ctrl-C.

    Example: dsms top --sort state --rows 10
    """
    with connect(coordinator, data_dir) as api:

        def looked() -> tuple[list[Document], list[Document]]:
            status = api.status()
            return executors(status), queries(api.queries(), api.control("queries"), status, sort)[:rows]

        with _display(output, once=once) as show:
            show(*looked())
            while not once:
                time.sleep(every)
                show(*looked())


@contextmanager
def _display(output: str, *, once: bool) -> Iterator[Callable[[list[Document], list[Document]], None]]:
    """Gives a function that shows one poll: as a line of JSON, or as tables, redrawn in place unless `once` is set."""
    if output == "json":
        yield lambda executors_, queries_: print_json({"executors": executors_, "queries": queries_})
    elif once:
        yield lambda executors_, queries_: stdout().print(_drawn(executors_, queries_))
    else:
        with Live(console=stdout(), screen=stdout().is_terminal, auto_refresh=False) as live:
            yield lambda executors_, queries_: live.update(_drawn(executors_, queries_), refresh=True)


def executors(status: Mapping[str, Any]) -> list[Document]:
    """A line for each executor.

    >>> executors({"executors": {"a": {"state": "running", "fragments": {"0": "running"}, "epoch": 7}}})
    [{'executor': 'a', 'state': 'running', 'fragments': 1, 'epoch': 7, 'in Redis': None, 'on disk': None}]
    """
    return [
        {
            "executor": name,
            "state": executor.get("state"),
            "fragments": len(executor.get("fragments", ())),
            "epoch": executor.get("epoch"),
            "in Redis": executor.get("redis_bytes"),
            "on disk": executor.get("disk_bytes"),
        }
        for name, executor in sorted(status.get("executors", {}).items())
    ]


def queries(
    listed: Sequence[Document], running: Sequence[Document], status: Mapping[str, Any], sort: Sort
) -> list[Document]:
    """A line for each query, sorted by `sort`: greatest value first, names in ascending order.

    >>> known = [{"name": "a", "state": "running", "progress": {"records_per_second": 3}}, {"name": "b"}]
    >>> [query["query"] for query in queries(known, [{"id": "b", "load": 0.5}], {"lag": {"a": 9}}, "load")]
    ['b', 'a']
    """
    loads, lag = {each["id"]: each for each in running}, status.get("lag", {})
    lines = [
        {
            "query": query["name"],
            "state": query.get("state"),
            "unread": lag.get(query["name"]),
            "records/s": (query.get("progress") or {}).get("records_per_second"),
            "load": loads.get(query["name"], {}).get("load"),
            "state bytes": loads.get(query["name"], {}).get("state_bytes"),
            "frontier": query.get("frontier"),
        }
        for query in listed
    ]
    by = {"load": "load", "state": "state bytes", "unread": "unread", "rate": "records/s"}.get(sort)
    return sorted(lines, key=lambda line: (-(line[by] or 0) if by else 0, line["query"]))


def _drawn(executors_: Sequence[Document], queries_: Sequence[Document]) -> Group:
    return Group(
        table(_EXECUTORS, [_shown(line) for line in executors_]), table(_QUERIES, [_shown(line) for line in queries_])
    )


def _shown(line: Document) -> list[object]:
    return [_written(name, value) for name, value in line.items()]


def _written(name: str, value: Any) -> object:
    if value is not None and name in _SIZES:
        return format_size(value)
    return f"{value:.3g}" if isinstance(value, float) else value
