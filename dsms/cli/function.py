"""`dsms function`: deploys, lists and drops functions and aggregates written in Python."""

import base64
import io
import re
import zipfile
from pathlib import Path
from typing import Annotated

import typer

from dsms.cli.cluster import DEFAULT_DATA_DIR, Coordinator, DataDir, OutputFormat, connect
from dsms.cli.output import print_json, print_result
from operators.core.errors import UserError
from operators.core.quoting import quoted_identifier, quoted_text

function = typer.Typer(no_args_is_help=True, help="Deploy, list or drop functions and aggregates written in Python.")
#: The date of every file in an archive. It is fixed, so that equal sources have equal hashes.
_NO_DATE = (1980, 1, 1, 0, 0, 0)
_NAME = re.compile(r"\s*([^\W\d]\w*)\s*\(")


@function.command("deploy")
def deploy(  # noqa: PLR0913 one parameter an option
    source: Annotated[Path, typer.Argument(exists=True, help="Module (.py), or directory of modules.")],
    signature: Annotated[str, typer.Argument(help="Such as 'score(price DOUBLE, n INT) RETURNS DOUBLE'.")],
    handler: Annotated[
        str | None,
        typer.Option(
            help="Name of the function or class: NAME in a module, MODULE:NAME in a directory; "
            "by default the name in the signature."
        ),
    ] = None,
    requires: Annotated[
        list[str] | None, typer.Option(help="Distribution that executors must have, such as 'numpy>=1.26'.")
    ] = None,
    time_limit: Annotated[str, typer.Option(help="Time limit of a call for one batch.")] = "10 s",
    aggregate: Annotated[
        bool, typer.Option("--aggregate", help="Create an aggregate, which is a class, instead of a function.")
    ] = False,
    memory: Annotated[str, typer.Option(help="Memory limit of the process that runs the function.")] = "512 MB",
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace what has the name: new queries use the new version.")
    ] = False,
    output: OutputFormat = "text",
    data_dir: DataDir = DEFAULT_DATA_DIR,
    coordinator: Coordinator = None,
) -> None:
    """Make a Python function available in SQL. Needs the role administrator.

    Example: dsms function deploy score.py 'score(price DOUBLE, n INT) RETURNS DOUBLE'
    """
    kind = "AGGREGATE" if aggregate else "FUNCTION"
    parts = [
        f"CREATE {'OR REPLACE ' if replace else ''}{kind} {signature} LANGUAGE PYTHON",
        f"HANDLER {quoted_text(handler or _name(signature))}",
        *([f"REQUIREMENTS ({', '.join(map(quoted_text, requires))})"] if requires else []),
        f"WITH (time_limit = {quoted_text(time_limit)}, memory = {quoted_text(memory)})",
        f"PACKAGE {quoted_text(base64.b64encode(packed(source)).decode())}",
    ]
    _execute(" ".join(parts), output, data_dir, coordinator)


@function.command("list")
def list_(
    aggregates: Annotated[
        bool, typer.Option("--aggregates", help="Show aggregates, in SQL and Python, instead of functions.")
    ] = False,
    output: OutputFormat = "text",
    data_dir: DataDir = DEFAULT_DATA_DIR,
    coordinator: Coordinator = None,
) -> None:
    """Show the functions, or the aggregates, and the objects that use them.

    Example: dsms function list
    """
    _execute("SHOW AGGREGATES" if aggregates else "SHOW FUNCTIONS", output, data_dir, coordinator)


@function.command("drop")
def drop(
    name: Annotated[str, typer.Argument(help="Name of the function or aggregate.")],
    aggregate: Annotated[bool, typer.Option("--aggregate", help="Drop an aggregate instead of a function.")] = False,
    output: OutputFormat = "text",
    data_dir: DataDir = DEFAULT_DATA_DIR,
    coordinator: Coordinator = None,
) -> None:
    """Drop a function or aggregate that nothing uses. Needs the role administrator.

    Example: dsms function drop score
    """
    kind = "AGGREGATE" if aggregate else "FUNCTION"
    _execute(f"DROP {kind} {quoted_identifier(name)}", output, data_dir, coordinator)


def packed(source: Path) -> bytes:
    """The bytes of a module, or a zip archive of a directory's modules. Equal sources give equal bytes."""
    if source.is_file():
        return source.read_bytes()
    files = sorted(path for path in source.rglob("*.py"))
    if not files:
        raise UserError(f'"{source}" has no .py file', hint="give a .py file, or a directory with .py files")
    packed_files = io.BytesIO()
    with zipfile.ZipFile(packed_files, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            archive.writestr(zipfile.ZipInfo(path.relative_to(source).as_posix(), _NO_DATE), path.read_bytes())
    return packed_files.getvalue()


def _name(signature: str) -> str:
    found = _NAME.match(signature)
    if found is None:
        raise UserError(
            f'"{signature}" is not a signature', hint="for example 'score(price DOUBLE, n INT) RETURNS DOUBLE'"
        )
    return found[1]


def _execute(sql: str, output: str, data_dir: Path, coordinator: str | None) -> None:
    with connect(coordinator, data_dir) as client:
        (result,) = client.execute(sql)
    if output == "json":
        print_json(result)
    else:
        print_result(result)
