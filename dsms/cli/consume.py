"""`dsms consume`: prints the changes of a result as they are published."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer
from rich.live import Live
from rich.table import Table

from connectors.formats.record_codec import RecordCodec
from connectors.formats.record_formats import FORMATS
from connectors.kafka.client.topics import Partition
from connectors.kafka.logs.follow import Arrival, Follower, Pause
from connectors.kafka.schema_registry.registry import Registry
from dsms.cli.cluster import DEFAULT_DATA_DIR, Coordinator, DataDir, connect, kafka_settings
from dsms.cli.instant_option import instant_option
from dsms.cli.notation import TableView, render_change
from dsms.cli.object_names import object_names
from dsms.cli.output import print_json, print_line, stdout, table
from operators.core.errors import UserError

FRONTIER_EVERY_S = 0.5

Show = Callable[["Change"], None]


@dataclass(frozen=True, slots=True)
class Change:
    """One decoded change. The row of a tombstone has the key's columns only."""

    op: str
    row: dict[str, Any]
    ts: int | None


@dataclass(frozen=True, slots=True)
class Result:
    """How to decode and show the changes of a result."""

    codec: RecordCodec
    columns: tuple[str, ...]
    key: tuple[str, ...]

    def change(self, arrival: Arrival) -> Change:
        """The change of one record. Raises UserError if the record has neither key nor value."""
        if arrival.value is not None:
            return Change(arrival.op, dict(self.codec.decode(arrival.value, key=False)), arrival.ts)
        if arrival.key is None:
            raise UserError(f"record {arrival.partition}/{arrival.offset} has neither key nor value")
        key = self.codec.decode(arrival.key, key=True)
        return Change("-", key if isinstance(key, dict) else dict(zip(self.key, [key], strict=False)), arrival.ts)

    def values(self, change: Change) -> list[Any]:
        """The row's values in the order of the columns."""
        return [change.row[column] for column in self.columns if column in change.row]


@dataclass(frozen=True, slots=True)
class Limits:
    """When following ends: after a number of records, at an instant, or after a time without records."""

    records: int | None = None
    until: int | None = None
    silence_s: float | None = None


def consume(  # noqa: PLR0913 (the options of a command line)
    name: Annotated[
        str,
        typer.Argument(help="Name of the stream, view or query.", autocompletion=object_names("streams", "queries")),
    ],
    output: Annotated[
        Literal["notation", "json", "table"],
        typer.Option("--format", help="Changes as +<a,105>2 or as JSON lines, or a table updated in place."),
    ] = "notation",
    from_beginning: Annotated[
        bool,
        typer.Option("--from-beginning/--from-now", help="Print all changes, or only those from now on."),
    ] = True,
    max_records: Annotated[
        int | None, typer.Option("--max-records", min=1, help="Stop after this many changes.")
    ] = None,
    until: Annotated[
        int | None,
        instant_option("--until", "Stop when every change below this instant has been printed."),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0, help="Stop after this many seconds without a change.")
    ] = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    coordinator: Coordinator = None,
) -> None:
    """Follow the changes of a result: + adds a row, u replaces the row of the same key, - removes a row.

    Example: dsms consume hot --format json --max-records 10
    """
    with connect(coordinator, data_dir) as api:
        document = api.describe(name)
        result = _result(document, api.url)
        limits = Limits(max_records, until, timeout)
        with (
            Follower(kafka_settings(api), str(document["topic"]), from_beginning=from_beginning) as follower,
            _display(output, result, name) as show,
        ):
            for arrival in limited(follower, limits, lambda: api.describe(name).get("frontier")):
                show(result.change(arrival))


def limited(follower: Follower, limits: Limits, frontier: Callable[[], int | None]) -> Iterator[Arrival]:
    """Yields arrivals until a limit is reached.

    A change is in the topic before a frontier above it is reported. So once the frontier has reached `until`, every
    unread change below `until` is before the current ends of the partitions: reading ends there.
    """
    shown, last_arrival = 0, time.monotonic()
    latest: int | None = None
    ends: dict[Partition, int] | None = None
    asked = float("-inf")
    for arrival in follower.arrivals():
        now = time.monotonic()
        if isinstance(arrival, Arrival):
            last_arrival = now
            if arrival.ts is not None:
                latest = arrival.ts if latest is None else max(arrival.ts, latest)
            if limits.until is None or arrival.ts is None or arrival.ts < limits.until:
                yield arrival
                shown += 1
            if shown == limits.records:
                return
        if limits.until is not None and ends is None and now - asked >= FRONTIER_EVERY_S:
            asked = now
            ends = follower.ends() if _passed(limits.until, latest, frontier()) else None
        if ends is not None and follower.reached(ends):
            return
        if arrival is Pause.IDLE and limits.silence_s is not None and now - last_arrival >= limits.silence_s:
            return


def _passed(until: int, latest: int | None, frontier: int | None) -> bool:
    return any(instant is not None and instant >= until for instant in (latest, frontier))


def _result(document: dict[str, Any], registry_url: str) -> Result:
    if not document.get("topic"):
        raise UserError(f'"{document.get("name")}" has no result topic to follow')
    schemas = Registry(document.get("registry") or registry_url, ours=document.get("registry") is None)
    form = FORMATS[document.get("format") or "json"]
    if form.codec is None:
        raise UserError(f'"{document.get("name")}" is a source', hint="follow a view or query that reads it")
    codec = form.codec_of(schemas, str(document["topic"]))
    columns = tuple(str(column["name"]) for column in document.get("columns") or ())
    return Result(codec, columns, tuple(document.get("key") or ()))


@contextmanager
def _display(output: str, result: Result, name: str) -> Iterator[Show]:
    if output == "json":
        yield lambda change: print_json({"op": change.op, "row": change.row, "ts": change.ts})
    elif output == "table":
        with _table_display(result, name) as show:
            yield show
    else:
        yield lambda change: print_line(render_change(change.op, result.values(change), change.ts))


@contextmanager
def _table_display(result: Result, name: str) -> Iterator[Show]:
    view = TableView(result.columns, result.key)
    instant: int | None = None

    def draw() -> Table:
        return table(view.columns, view.rows(), name if instant is None else f"{name} at {instant}")

    with Live(get_renderable=draw, console=stdout(), refresh_per_second=8) as live:

        def show(change: Change) -> None:
            nonlocal instant
            view.apply(change.op, change.row)
            instant = change.ts

        yield show
        live.refresh()
