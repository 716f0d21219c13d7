"""The command line of the services, and their alarms."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import structlog
import typer

from dsms.spark.compat.hidden_pandas import without_pandas
from operators.core.alarms import Alarm, Alarms
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


def logged_alarms() -> Alarms:
    """Alarms of a service, each of which is in its log when it is raised first."""
    return Alarms(_log_alarm)


def _log_alarm(alarm: Alarm) -> None:
    place = {"partition": alarm.partition, "offset": alarm.first} if alarm.partition is not None else {}
    structlog.get_logger().warning("does not count", place=alarm.place, reason=alarm.reason, **place)
