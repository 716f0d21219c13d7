"""The command `dsms`. Exit codes: 0 success, 1 request refused, 2 usage error, 3 service unreachable, 130 Ctrl-C."""

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import typer

from connectors.credentials.secrets import take_files
from dsms.cli.lazy_group import Command, lazy_group
from dsms.cli.output import print_error, stdout
from operators.core.errors import DsmsError, ExternalError, UserError

DONE, REFUSED, UNREACHABLE, INTERRUPTED = 0, 1, 3, 130

#: The commands, in the order of the help. To add a command, add a line.
COMMANDS = {
    "up": Command("dsms.cli.lifecycle:up", "Start Kafka, Redis, the coordinator and an executor on this machine."),
    "status": Command(
        "dsms.cli.lifecycle:status",
        "Show the services, executors and fragments. The exit code is 3 when nothing is running.",
    ),
    "top": Command("dsms.cli.top:top", "Show executors and queries with their rates, load and state, until Ctrl-C."),
    "logs": Command(
        "dsms.cli.logs:logs", "Show the logs of the services that `dsms up` started, also after they have ended."
    ),
    "down": Command("dsms.cli.lifecycle:down", "Stop the services that `dsms up` started. The data is kept."),
    "sql": Command("dsms.cli.sql:sql", "Run SQL statements, or open a shell when there are none."),
    "publish": Command(
        "dsms.cli.publish:publish", "Send JSON lines to a topic. Lines of CSV and Debezium events are sent unchanged."
    ),
    "source": Command("dsms.cli.source:source", "Propose the statements that read a topic."),
    "load": Command("dsms.cli.load:load", "Add the rows of a file to a table: all of them at one instant, or none."),
    "consume": Command(
        "dsms.cli.consume:consume",
        "Follow the changes of a result: + adds a row, u replaces the row of the same key, - removes a row.",
    ),
    "catch-up": Command(
        "dsms.cli.catch_up:catch_up",
        "Wait until queries have caught up with their sources, after CREATE, REPAIR, RESUME or an outage.",
    ),
    "explain": Command("dsms.cli.inspect:explain", "Show the plan of a query."),
    "token": Command("dsms.cli.token:token", "Make an API token."),
    "dead-letters": Command("dsms.cli.inspect:dead_letters", "Show the records that a source refused, and why."),
    "replay": Command(
        "dsms.cli.replay:replay",
        "Write the dead letters of a source to its topic again. A repeated call does not write a record a second time.",
    ),
    "sink": Command(
        "dsms.cli.sink:sink",
        "Keep a result in a database, Iceberg or Delta table, or its changes in Parquet files, each exactly once.",
    ),
    "doctor": Command(
        "dsms.cli.doctor:doctor",
        "Check the topics, records, manifests, runs and other state of a cluster. Only Kafka and Redis must run.",
    ),
    "story": Command(
        "dsms.cli.story:story", "Show the last events of a fragment with what followed from them, oldest first."
    ),
    "plan": Command("dsms.cli.plan:plan", "Export all objects and plans as a document, or import a document."),
    "checkpoint": Command("dsms.cli.checkpoint:checkpoint", "List, make, check and copy the checkpoints of a cluster."),
    "function": Command(
        "dsms.cli.function:function", "Deploy, list or drop functions and aggregates written in Python."
    ),
}
app = typer.Typer(
    name="dsms",
    cls=lazy_group(COMMANDS),
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Continuous SQL over Kafka.",
    epilog="Exit codes: 0 success, 1 request refused, 2 usage error, 3 service unreachable, 130 ended by Ctrl-C.",
)


def _show_version(asked: bool) -> None:
    if asked:
        stdout().print(f"dsms {version('dsms')}", markup=False, highlight=False)
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """The options without a command."""


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
    except OSError as error:
        if error.filename is None:
            raise
        print_error(UserError(f'cannot use "{error.filename}": {error.strerror}'))
        return REFUSED
    return DONE


def exit_code(error: DsmsError) -> int:
    """The code of an error.

    >>> exit_code(ExternalError("kafka does not answer"))
    3
    """
    return UNREACHABLE if isinstance(error, ExternalError) else REFUSED
