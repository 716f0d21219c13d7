"""Options whose value is an instant."""

from typing import Any

import typer

from dsms.model.instants import given_instant
from operators.core.errors import UserError


def instant_option(name: str, help_: str) -> Any:
    """An option that takes a whole number, or a time in ISO 8601."""
    return typer.Option(name, parser=_parsed, metavar="INSTANT", help=f"{help_} A number, or a time in ISO 8601.")


def _parsed(text: str) -> int:
    try:
        return given_instant(text)
    except UserError as error:
        raise typer.BadParameter(f"{error.message}; {error.hint}") from error
