"""`dsms replay`: writes refused records to their topic again."""

from typing import Annotated

import typer

from dsms.cli.cluster import DEFAULT_DATA_DIR, Coordinator, DataDir, OutputFormat, connect
from dsms.cli.object_names import object_names
from dsms.cli.sql import run
from operators.core.quoting import quoted_identifier


def replay(
    source: Annotated[str, typer.Argument(help="Name of the source.", autocompletion=object_names("sources"))],
    where: Annotated[
        str,
        typer.Option(
            help="Replay only matching records, by partition, offset, reason, value and late.", metavar="PREDICATE"
        ),
    ] = "",
    value: Annotated[
        str,
        typer.Option("--set", help="New value of each record, computed from the same columns.", metavar="EXPRESSION"),
    ] = "",
    output: OutputFormat = "text",
    data_dir: DataDir = DEFAULT_DATA_DIR,
    coordinator: Coordinator = None,
) -> None:
    """Write the dead letters of a source to its topic again. A repeated call does not write a record a second time.

    Example: dsms replay readings --set "replace(value, 'N/A', 'null')" --where "reason LIKE '%N/A%'"
    """
    corrected, chosen = f" SET value = {value}" if value else "", f" WHERE {where}" if where else ""
    with connect(coordinator, data_dir) as api:
        run(api, f"REPLAY DEAD LETTERS OF {quoted_identifier(source)}{corrected}{chosen}", output)
