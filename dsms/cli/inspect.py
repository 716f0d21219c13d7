"""`dsms explain` and `dsms dead-letters`: show a plan, and the records that a source refused."""

from typing import Annotated

import typer

from dsms.cli.cluster import DEFAULT_DATA_DIR, Coordinator, DataDir, OutputFormat, connect
from dsms.cli.object_names import object_names
from dsms.cli.output import note, print_documents, print_json
from dsms.cli.sql import run


def explain(
    what: Annotated[
        str,
        typer.Argument(
            help="SQL text of a query, or the name of a stream, view or query.",
            autocompletion=object_names("streams", "queries"),
        ),
    ],
    analyze: Annotated[
        bool, typer.Option("--analyze", help="Show the measurements of each operator of a running query.")
    ] = False,
    output: OutputFormat = "text",
    data_dir: DataDir = DEFAULT_DATA_DIR,
    coordinator: Coordinator = None,
) -> None:
    """Show the plan of a query.

    Example: dsms explain 'SELECT STREAMED room FROM R(readings) WHERE t > 30'
    """
    with connect(coordinator, data_dir) as api:
        run(api, f"EXPLAIN {'ANALYZE ' if analyze else ''}{what}", output)


def dead_letters(
    source: Annotated[str, typer.Argument(help="Name of the source.", autocompletion=object_names("sources"))],
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Show at most the latest N records.")] = 100,
    output: OutputFormat = "text",
    data_dir: DataDir = DEFAULT_DATA_DIR,
    coordinator: Coordinator = None,
) -> None:
    """Show the records that a source refused, and why.

    Example: dsms dead-letters readings --limit 10
    """
    with connect(coordinator, data_dir) as api:
        records = api.dead_letters(source, limit)
    if output == "json":
        for record in records:
            print_json(record)
    elif records:
        print_documents(records)
    else:
        note(f'"{source}" has no dead letters')
