"""`dsms plan`: plans as documents."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from dsms.cli.cluster import DEFAULT_DATA_DIR, Coordinator, DataDir, OutputFormat, connect
from dsms.cli.output import note, print_json
from operators.core.errors import UserError

plan = typer.Typer(
    name="plan", no_args_is_help=True, help="Write all objects and plans to a document, or make those of one."
)


@plan.command("export")
def export(
    form: Annotated[Literal["json", "xml"], typer.Option("--format", help="The notation of the document.")] = "json",
    data_dir: DataDir = DEFAULT_DATA_DIR,
    coordinator: Coordinator = None,
) -> None:
    """Write all objects with their statements, and the plans of queries, to standard output.

    Example: dsms plan export --format xml > plan.xml
    """
    with connect(coordinator, data_dir) as api:
        sys.stdout.buffer.write(api.plan(form) + b"\n")
        sys.stdout.flush()


@plan.command("import")
def import_(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A document in JSON or XML.")],
    output: OutputFormat = "text",
    data_dir: DataDir = DEFAULT_DATA_DIR,
    coordinator: Coordinator = None,
) -> None:
    """Make the objects of a document that are not there; doing it twice does nothing more.

    Example: dsms plan import plan.xml
    """
    with connect(coordinator, data_dir) as api:
        found = api.make(_read(file))
    if output == "json":
        print_json(found)
    else:
        note(f"{len(found['made'])} made, {len(found['there'])} there already")


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UserError(f'"{file}" cannot be read: {error.strerror}') from error
