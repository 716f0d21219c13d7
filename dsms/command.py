"""The command line of the services."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import typer

from dsms.spark.compat.hidden_pandas import without_pandas
from operators.core.errors import UserError


def serve(main: Callable[..., None]) -> None:
    """Runs the service with the command line of this process; a UserError is printed in one line, with exit code 1."""
    without_pandas(os.environ)
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(main)
    try:
        app()
    except UserError as error:
        sys.exit(f"error: {error}")
