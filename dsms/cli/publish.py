"""`dsms publish`: sends JSON lines to a topic."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from connectors.formats.record_codec import RowEncoder
from connectors.formats.record_formats import FORMATS
from connectors.kafka.client.topics import SOURCE, ensure_topic
from connectors.kafka.records.publish import Publisher
from connectors.kafka.records.record_lines import LineFormat, Lines, WholeLines, numbered
from connectors.kafka.schema_registry.registry import Registry
from dsms.cli.cluster import DEFAULT_DATA_DIR, Coordinator, DataDir, connect, kafka_settings
from dsms.cli.instant_option import instant_option
from dsms.cli.output import note
from dsms.client.documents import Document
from operators.core.errors import DsmsError, UserError


def _known_format(name: str | None) -> str | None:
    if name is not None and name not in FORMATS:
        raise typer.BadParameter(f'"{name}" is not a record format; have: {", ".join(FORMATS)}')
    return name


def publish(  # noqa: PLR0913 (the options of a command line)
    topic: Annotated[str, typer.Argument(help="Topic to send to.")],
    file: Annotated[str | None, typer.Argument(help='File of JSON lines; "-" or none means standard input.')] = None,
    key: Annotated[
        list[str] | None, typer.Option("--key", help="Column of the record key; repeat it for several columns.")
    ] = None,
    create: Annotated[bool, typer.Option("--create", help="Create the topic if it does not exist.")] = False,
    partitions: Annotated[
        int, typer.Option("--partitions", min=1, help="Number of partitions of a topic created by --create.")
    ] = 1,
    advance: Annotated[
        int | None,
        instant_option("--advance", "Promise that no record below this instant will follow."),
    ] = None,
    encoding: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar=f"[{'|'.join(FORMATS)}]",
            callback=_known_format,
            help="Format of the records; by default that of the topic's source, else json.",
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Publish even to a topic that only the system writes; needs the role administrator."
        ),
    ] = False,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    coordinator: Coordinator = None,
) -> None:
    """Send JSON lines to a topic. Lines of CSV and Debezium events are sent unchanged.

    The field "ts" of JSON lines becomes the instant of the record and the field "op" ("+", "u" or "-") its kind of
    change, unless the topic's source has columns of these names. Sending stops at the first invalid line; the number
    of records sent is always reported. Nothing is sent to topics that only the system writes (results, dead letters,
    logs of tables, internal topics), unless --force is given. With --advance and no file, only the promise is sent.

    Example: echo '{"room": "a", "t": 31, "ts": 1}' | dsms publish readings --key room --create
    """
    with connect(coordinator, data_dir) as api:
        api.check_publishing(topic, force=force)
        settings = kafka_settings(api)
        if create:
            ensure_topic(settings.admin(), topic, partitions, SOURCE)
        publisher = Publisher(settings, topic)
        if file is not None or advance is None:
            source = next((source for source in api.sources() if source.get("topic") == topic), {})
            lines = _lines(source, api.url, topic, encoding, key)
            with _opened(file) as text:
                send_lines(publisher, lines, text, topic)
        if advance is not None:
            note(f'advanced {_counted(publisher.heartbeat(advance), "partition")} of "{topic}" to {advance}')


def send_lines(publisher: Publisher, lines: Lines, text: Iterable[str], topic: str) -> None:
    """Sends every line; when sending stops early, the records sent so far are still delivered and counted."""
    try:
        with _progress() as advance:
            for number, line in numbered(text):
                publisher.send(_outgoing(lines, number, line))
                advance()
            publisher.flush()
    except (KeyboardInterrupt, DsmsError):
        publisher.settle()
        note(f'stopped; {_counted(publisher.delivered, "record")} sent to "{topic}"')
        raise
    note(f'{_counted(publisher.delivered, "record")} sent to "{topic}"')


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _outgoing(lines: Lines, number: int, line: str) -> Any:
    try:
        return lines.outgoing(line)
    except UserError as error:
        raise UserError(f"line {number}: {error.message}", hint=error.hint) from error


def _lines(source: Document, registry: str, topic: str, encoding: str | None, key: list[str] | None) -> Lines:
    """The format that turns lines into records of the topic."""
    form = FORMATS[encoding or source.get("format") or "json"]
    if form.codec is None:
        if key:
            raise UserError("--key does not apply to a format whose lines are sent unchanged", hint="leave --key out")
        return WholeLines()
    schemas = Registry(source.get("registry") or registry, ours=source.get("registry") is None)
    return _line_format(source, form.codec_of(schemas, topic), key)


def _line_format(source: Document, encoder: RowEncoder, key: list[str] | None) -> LineFormat:
    columns = {str(column["name"]) for column in source.get("columns") or ()}
    columns |= {str(source.get(clause)) for clause in ("timestamp", "tagged")}
    return LineFormat(encoder, key if key is not None else list(source.get("key") or ()), frozenset(columns))


@contextmanager
def _opened(file: str | None) -> Iterator[TextIO]:
    if file is None or file == "-":
        yield sys.stdin
        return
    with ExitStack() as stack:
        try:
            opened = stack.enter_context(open(file, encoding="utf-8"))
        except OSError as error:
            raise UserError(f'cannot read "{file}": {error.strerror}') from error
        yield opened


@contextmanager
def _progress() -> Iterator[Any]:
    """Gives a function to call after every record; the count is shown if standard error is a terminal."""
    console = Console(stderr=True)
    layout = (SpinnerColumn(), TextColumn("{task.completed:,.0f} records"), TimeElapsedColumn())
    with Progress(*layout, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=None)
        yield lambda: progress.advance(task)
