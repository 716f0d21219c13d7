"""`dsms sql`: statements from an option, a file, a pipe or a shell."""

import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer

from dsms.cli.cluster import DEFAULT_DATA_DIR, Coordinator, DataDir, OutputFormat, connect
from dsms.cli.output import print_error, print_json, print_result
from dsms.cli.shell import Shell
from dsms.coordinator.service import StatementResult
from operators.errors import DsmsError, UserError


class Session(Protocol):
    """Runs statements: the coordinator, or this process."""

    def execute(self, sql: str) -> list[Any]:
        """The statements' results, or rows of a one-time query as documents."""
        ...


def sql(
    execute: Annotated[str | None, typer.Option("-e", "--execute", help="Run these statements and end.")] = None,
    file: Annotated[
        Path | None, typer.Option("-f", "--file", exists=True, dir_okay=False, help="Run a file of statements and end.")
    ] = None,
    in_memory: Annotated[
        bool, typer.Option("--in-memory", help="Use a session in this process, without a cluster.")
    ] = False,
    output: OutputFormat = "text",
    data_dir: DataDir = DEFAULT_DATA_DIR,
    coordinator: Coordinator = None,
) -> None:
    """Run SQL statements, or open a shell.

    Example: dsms sql -e 'SHOW STREAMS'
    """
    if execute is not None and file is not None:
        raise typer.BadParameter("-e and -f exclude each other")
    with ExitStack() as stack:
        session: Session = _local_session() if in_memory else stack.enter_context(connect(coordinator, data_dir))
        text = _script(execute, file)
        if text is not None:
            run(session, text, output)
        else:
            data_dir.mkdir(parents=True, exist_ok=True)
            shell = Shell(data_dir / "sql_history", lambda: names_of(session), lambda t: _answer(session, t, output))
            shell.run()


def run(session: Session, text: str, output: str) -> None:
    """Executes the statements and prints what they did."""
    results = session.execute(text)
    rows = [result for result in results if isinstance(result, dict)]
    statements = [result for result in results if isinstance(result, StatementResult)]
    if rows:
        columns = tuple(rows[0])
        statements.append(StatementResult("SELECT", "", columns, tuple(tuple(row.values()) for row in rows)))
    for statement in statements:
        if output == "json":
            print_json(statement)
        else:
            print_result(statement)


def names_of(session: Session) -> Iterable[str]:
    """The names for completion; none when they cannot be had now."""
    listings = [getattr(session, kind, None) for kind in ("sources", "streams", "queries")]
    try:
        return {str(document["name"]) for listing in listings if listing for document in listing()}
    except DsmsError:
        return ()


def _answer(session: Session, text: str, output: str) -> None:
    """As `run`, but an error is printed and the shell goes on."""
    try:
        run(session, text, output)
    except DsmsError as error:
        print_error(error)


def _script(execute: str | None, file: Path | None) -> str | None:
    if execute is not None:
        return execute
    if file is not None:
        return _read(file)
    return None if sys.stdin.isatty() else sys.stdin.read()


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f'"{file}" cannot be read: {error}') from error


def _local_session() -> Session:
    from dsms.testing import LocalSession

    session: Session = LocalSession()
    return session
