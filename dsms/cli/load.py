"""`dsms load`: adds the rows of a local file to a table."""

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
    table: Annotated[str, typer.Argument(help="Name of the table.")],
    file: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="CSV file with a header line, or Parquet file.")
    ],
    format_: Annotated[
        str | None, typer.Option("--file-format", help="csv or parquet; by default the suffix of the file's name.")
    ] = None,
    output: OutputFormat = "text",
    data_dir: DataDir = DEFAULT_DATA_DIR,
    coordinator: Coordinator = None,
) -> None:
    """Add the rows of a file to a table: all of them at one instant, or none.

    Example: dsms load rooms rooms.csv
    """
    from connectors.tables.files import FORMATS  # its libraries are slow to import, and no other command needs them

    form = (format_ or file.suffix.removeprefix(".")).lower()
    if form not in FORMATS:
        choices = ", ".join(FORMATS)
        raise UserError(
            f'unknown file format "{form}" of "{file.name}"', hint=f"set --file-format to one of: {choices}"
        )
    with connect(coordinator, data_dir) as client, Progress(console=Console(stderr=True), transient=True) as progress:
        result = client.load(table, form, _parts(file, progress))
    if output == "json":
        print_json(result)
    else:
        print_result(result)


def _parts(file: Path, progress: Progress) -> Iterator[bytes]:
    """The file in parts; the progress bar advances when a part has been sent."""
    task = progress.add_task(file.name, total=file.stat().st_size)
    with file.open("rb") as opened:
        while part := opened.read(_PART_BYTES):
            yield part
            progress.advance(task, len(part))
