"""Prints the output of commands: data to standard output, notes and errors to standard error."""

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dsms.cli.notation import render_value
from dsms.model.statement_result import StatementResult
from operators.core.errors import DsmsError


def stdout() -> Console:
    """Standard output; long lines are not wrapped unless it is a terminal."""
    return Console(highlight=False, soft_wrap=True)


def note(line: str) -> None:
    """Prints a line for the user on standard error."""
    Console(stderr=True, highlight=False, soft_wrap=True, markup=False).print(line)


def json_line(document: object) -> str:
    """A document as one line of JSON: decimals and instants as text, bytes as base64.

    >>> json_line({"a": b"x"})
    '{"a":"eA=="}'
    """
    return msgspec.json.encode(document, enc_hook=str).decode()


def print_json(document: object) -> None:
    """Prints a document as one line of JSON."""
    print_line(json_line(document))


def print_line(line: str) -> None:
    """Prints a line of data and flushes it, so that the reader of a pipe sees it at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> Table:
    """Rows under their column names."""
    drawn = Table(title=title, title_justify="left", header_style="bold")
    for column in columns:
        drawn.add_column(escape(column), overflow="fold")
    for row in rows:
        drawn.add_row(*(escape(render_value(value)) for value in row))
    return drawn


def print_documents(documents: Sequence[dict[str, Any]], columns: Sequence[str] | None = None) -> None:
    """Prints documents as a table of these columns, by default of all columns that occur."""
    names = list(columns or dict.fromkeys(name for document in documents for name in document))
    stdout().print(table(names, [[document.get(name) for name in names] for document in documents]))


def print_result(result: StatementResult) -> None:
    """Prints the rows, message and notices of a statement; the lines of EXPLAIN are printed without a table."""
    console = stdout()
    if len(result.columns) == 1 and result.statement.startswith("EXPLAIN"):
        for row in result.rows:
            console.print(str(row[0]), markup=False)
    elif result.columns:
        console.print(table(result.columns, result.rows))
    if result.message:
        console.print(result.message, markup=False)
    for notice in result.notices:
        console.print(f"  note: {notice}", markup=False)


def print_error(error: DsmsError) -> None:
    """Prints an error on standard error: the message, its notes (such as the location in the text) and the hint."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"[bold red]error:[/] {escape(error.message)}")
    for text in getattr(error, "__notes__", ()):
        for line in text.splitlines():
            console.print(f"  {line}", markup=False)
    if error.hint:
        console.print(f"[dim]hint:[/] {escape(error.hint)}")
