"""`dsms plan`: exports the catalog with its plans as a document, and imports it."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from dsms.cli.cluster import DEFAULT_DATA_DIR, Coordinator, DataDir, OutputFormat, connect
from dsms.cli.output import note, print_json
from operators.core.errors import UserError

plan = typer.Typer(no_args_is_help=True, help="Export all objects and plans as a document, or import a document.")


@plan.command("export")
def export(
    form: Annotated[Literal["json", "xml"], typer.Option("--format", help="Format of the document.")] = "json",
    data_dir: DataDir = DEFAULT_DATA_DIR,
    coordinator: Coordinator = None,
) -> None:
    """Write the statements of all objects and the plans of all queries to standard output.

    Example: dsms plan export --format xml > plan.xml
    """
    with connect(coordinator, data_dir) as api:
        sys.stdout.buffer.write(api.plan(form) + b"\n")
        sys.stdout.flush()


@plan.command("import")
def import_(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Document in JSON or XML.")],
    output: OutputFormat = "text",
    data_dir: DataDir = DEFAULT_DATA_DIR,
    coordinator: Coordinator = None,
) -> None:
    """Create the objects of a document that do not exist yet. Importing a document again changes nothing.

    Example: dsms plan import plan.xml
    """
    with connect(coordinator, data_dir) as api:
        outcome = api.import_document(_read(file))
    if output == "json":
        print_json(outcome)
    else:
        note(f"{len(outcome['made'])} created, {len(outcome['there'])} existed already")
        for notice in outcome.get("notices", []):
            note(notice)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UserError(f'cannot read "{file}": {error.strerror}') from error
