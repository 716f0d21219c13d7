"""`dsms sql`: runs statements from an option, a file, a pipe or the shell."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Protocol

import typer

from dsms.cli.api_client import ApiClient
from dsms.cli.cluster import DEFAULT_DATA_DIR, Coordinator, DataDir, OutputFormat, connect
from dsms.cli.object_names import names_of
from dsms.cli.output import print_error, print_json, print_result
from dsms.model.statement_result import StatementResult
from operators.core.errors import DsmsError, SqlError, UserError


class Session(Protocol):
    """Runs statements: at the coordinator, or in this process."""

    def execute(self, sql: str) -> list[StatementResult]:
        """The statements' results."""
        ...


class InMemory:
    """A session in this process, without a cluster."""

    def __init__(self) -> None:
        from dsms.testing import LocalSession

        self._session = LocalSession()

    def execute(self, sql: str) -> list[StatementResult]:
        """The statements' results."""
        return self._session.run(sql)


class Waiting:
    """A session at the coordinator, whose SELECTs wait some seconds for results that have no final instant yet."""

    def __init__(self, client: ApiClient, wait_s: float) -> None:
        self._client, self._wait_s = client, wait_s
        self.sources, self.streams, self.queries = client.sources, client.streams, client.queries

    def execute(self, sql: str) -> list[StatementResult]:
        """The statements' results."""
        return self._client.execute(sql, wait_s=self._wait_s)


def sql(  # noqa: PLR0913  one parameter per option
    execute: Annotated[str | None, typer.Option("-e", "--execute", help="Run these statements and exit.")] = None,
    file: Annotated[
        Path | None,
        typer.Option("-f", "--file", exists=True, dir_okay=False, help="Run the statements of this file and exit."),
    ] = None,
    in_memory: Annotated[
        bool, typer.Option("--in-memory", help="Run the statements in this process, without a cluster.")
    ] = False,
    wait: Annotated[
        float, typer.Option(min=0, max=3600, help="Seconds to wait for results that have no final instant yet.")
    ] = 0.0,
    output: OutputFormat = "text",
    data_dir: DataDir = DEFAULT_DATA_DIR,
    coordinator: Coordinator = None,
) -> None:
    """Run SQL statements, or open a shell when there are none.

    Example: dsms sql -e 'SHOW STREAMS'
    """
    if execute is not None and file is not None:
        raise typer.BadParameter("-e and -f cannot be used together")
    with ExitStack() as stack:
        session: Session = (
            InMemory() if in_memory else Waiting(stack.enter_context(connect(coordinator, data_dir)), wait)
        )
        text = _script(execute, file)
        if text is not None:
            run(session, text, output)
        else:
            from dsms.cli.shell import Shell  # imported when needed: terminal and syntax libraries

            data_dir.mkdir(parents=True, exist_ok=True)
            shell = Shell(data_dir / "sql_history", lambda: names_of(session), lambda t: _answer(session, t, output))
            shell.run()


def run(session: Session, text: str, output: str) -> None:
    """Executes the statements and prints their results. A SqlError gets a note that points at its location."""
    try:
        results = session.execute(text)
    except SqlError as error:
        from dsms.cli.statement_text import caret  # imported when needed: it loads the parser

        error.add_note(caret(text, error.line, error.column))
        raise
    for result in results:
        if output == "json":
            print_json(result)
        else:
            print_result(result)


def _answer(session: Session, text: str, output: str) -> None:
    """Like `run`, but prints an error instead of raising it, so that the shell continues."""
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
        raise UserError(f'cannot read "{file}": {error}') from error
