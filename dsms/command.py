"""The command line of the services, and their alarms."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, MutableMapping
from typing import Any

import structlog
import typer

from connectors.alarms import Alarm, Alarms
from connectors.credentials.secrets import check_arguments, take_files
from dsms.spark.compat.hidden_pandas import without_pandas
from dsms.telemetry.current_trace import current_trace
from operators.core.errors import UserError
from operators.core.masking import masked


def serve(main: Callable[..., None]) -> None:
    """Runs the service with the command line of this process; a UserError is printed in one line, with exit code 1.
    Settings that are secrets may come from files, and none may be in the command line."""
    without_pandas(os.environ)
    configure_log()
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(main)
    try:
        check_arguments(sys.argv[1:])
        take_files(os.environ)
        app()
    except UserError as error:
        sys.exit(f"error: {error}")


def configure_log() -> None:
    """Passwords are masked in the log, and tracebacks show no values of variables, which may be secrets. Only a
    terminal gets colours."""
    renderer = structlog.dev.ConsoleRenderer(
        colors=sys.stdout.isatty(), exception_formatter=structlog.dev.plain_traceback
    )
    processors = structlog.get_config()["processors"][:-1]
    structlog.configure(processors=[*processors, _mask, _traced, renderer])


def _mask(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {name: masked(value) if isinstance(value, str) else value for name, value in event.items()}


def _traced(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The event with the id of the trace within which it is logged, if there is one."""
    trace = current_trace()
    return event if trace is None else {**event, "trace": trace}


def logged_alarms() -> Alarms:
    """Alarms of a service, each of which is in its log when it is raised first."""
    return Alarms(_log_alarm)


def _log_alarm(alarm: Alarm) -> None:
    place = {"partition": alarm.partition, "offset": alarm.first} if alarm.partition is not None else {}
    structlog.get_logger().warning("does not count", place=alarm.place, reason=alarm.reason, **place)
