"""`dsms load`: the rows of a file of this machine for a table."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from dsms.cli.cluster import DEFAULT_DATA_DIR, Coordinator, DataDir, OutputFormat, connect
from dsms.cli.output import print_json, print_result
from operators.core.errors import UserError

_PART_BYTES = 1 << 20


def load(
    table: Annotated[str, typer.Argument(help="The table.")],
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A CSV file with a header, or Parquet.")],
    format_: Annotated[
        str | None, typer.Option("--file-format", help="csv or parquet; by default as the file's name says.")
    ] = None,
    output: OutputFormat = "text",
    data_dir: DataDir = DEFAULT_DATA_DIR,
    coordinator: Coordinator = None,
) -> None:
    """Add the rows of a file to a table, all at one instant or none of them.

    Example: dsms load rooms rooms.csv
    """
    form = (format_ or file.suffix.removeprefix(".")).lower()
    if form not in ("csv", "parquet"):
        raise UserError(f'unknown file format "{form}"', hint="say --file-format csv or --file-format parquet")
    with connect(coordinator, data_dir) as client, Progress(console=Console(stderr=True), transient=True) as progress:
        result = client.load(table, form, _parts(file, progress))
    if output == "json":
        print_json(result)
    else:
        print_result(result)


def _parts(file: Path, progress: Progress) -> Iterator[bytes]:
    """The file in pieces, as they are sent."""
    task = progress.add_task(file.name, total=file.stat().st_size)
    with file.open("rb") as opened:
        while part := opened.read(_PART_BYTES):
            yield part
            progress.advance(task, len(part))
