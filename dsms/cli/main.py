"""The command `dsms`. Exit codes: 0 success, 1 request refused, 2 usage error, 3 service unreachable, 130 Ctrl-C."""

import os
import sys
from collections.abc import Callable, Sequence

import typer

from connectors.credentials.secrets import take_files
from dsms.cli.catch_up import catch_up
from dsms.cli.checkpoint import checkpoint
from dsms.cli.consume import consume
from dsms.cli.doctor import doctor
from dsms.cli.function import function
from dsms.cli.inspect import dead_letters, explain
from dsms.cli.lifecycle import down, status, up
from dsms.cli.load import load
from dsms.cli.output import print_error
from dsms.cli.plan import plan
from dsms.cli.publish import publish
from dsms.cli.replay import replay
from dsms.cli.sink import sink
from dsms.cli.source import source
from dsms.cli.sql import sql
from dsms.cli.story import story
from dsms.cli.token import token
from dsms.cli.top import top
from operators.core.errors import DsmsError, ExternalError

DONE, REFUSED, UNREACHABLE, INTERRUPTED = 0, 1, 3, 130

app = typer.Typer(
    name="dsms",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Continuous SQL over Kafka.",
    epilog="Exit codes: 0 success, 1 request refused, 2 usage error, 3 service unreachable, 130 ended by Ctrl-C.",
)
#: The commands, in the order of the help. To add a command, add a line.
COMMANDS: dict[str, Callable[..., None] | typer.Typer] = {
    "up": up,
    "status": status,
    "top": top,
    "down": down,
    "sql": sql,
    "publish": publish,
    "source": source,
    "load": load,
    "consume": consume,
    "catch-up": catch_up,
    "explain": explain,
    "token": token,
    "dead-letters": dead_letters,
    "replay": replay,
    "sink": sink,
    "doctor": doctor,
    "story": story,
    "plan": plan,
    "checkpoint": checkpoint,
    "function": function,
}
for name, command in COMMANDS.items():
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name)
    else:
        app.command(name)(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command that the arguments name and ends the process with its exit code."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code. Only this function turns errors into exit codes."""
    try:
        take_files(os.environ)
        app(list(arguments) if arguments is not None else None)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else DONE
    except KeyboardInterrupt:
        return INTERRUPTED
    except DsmsError as error:
        print_error(error)
        return exit_code(error)
    return DONE


def exit_code(error: DsmsError) -> int:
    """The code of an error.

    >>> exit_code(ExternalError("kafka does not answer"))
    3
    """
    return UNREACHABLE if isinstance(error, ExternalError) else REFUSED
