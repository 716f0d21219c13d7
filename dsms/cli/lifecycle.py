"""`dsms up`, `dsms status` and `dsms down`: a whole cluster on this machine."""

import os
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from dsms.cli.api_client import ApiClient
from dsms.cli.cluster import DEFAULT_DATA_DIR, Coordinator, DataDir, OutputFormat, take_local_token
from dsms.cli.cluster_summary import summary
from dsms.cli.output import note, print_documents, print_json, stdout
from dsms.local.access_token import console_url
from dsms.local.encoding import encode
from dsms.local.settings import load_settings
from dsms.local.state import LocalState, running_state
from operators.core.errors import ExternalError


def _port(server: str, default: int) -> Any:
    help_ = f"Port of {server}, {default} by default; 0 picks a free one."
    return typer.Option(min=0, max=65535, help=help_, show_default=False)


def up(  # noqa: PLR0913 one parameter an option
    data_dir: DataDir = DEFAULT_DATA_DIR,
    kafka_port: Annotated[int | None, _port("Kafka", 9092)] = None,
    redis_port: Annotated[int | None, _port("Redis", 6379)] = None,
    http_port: Annotated[int | None, _port("the coordinator", 8080)] = None,
    postgres_port: Annotated[
        int | None,
        typer.Option(help="Port for psql and other clients of PostgreSQL; 0 picks a free one.", show_default=False),
    ] = None,
    load_dir: Annotated[
        Path | None, typer.Option(help="Directory whose files COPY may read.", show_default=False)
    ] = None,
    load_databases: Annotated[
        bool | None,
        typer.Option("--load-databases", help="Allow LOAD TABLE to connect to databases.", show_default=False),
    ] = None,
    python: Annotated[
        bool | None,
        typer.Option("--python", help="Allow functions and aggregates in Python.", show_default=False),
    ] = None,
    sinks: Annotated[
        str | None,
        typer.Option(
            help="Directories and URLs, separated by commas, below which CREATE SINK may write.", show_default=False
        ),
    ] = None,
    without_token: Annotated[
        bool | None,
        typer.Option(
            "--without-token",
            help="Let every program on this machine call the coordinator without a token.",
            show_default=False,
        ),
    ] = None,
    executors: Annotated[
        int | None,
        typer.Option(min=0, help="Number of executors, 1 by default; each is a Spark driver.", show_default=False),
    ] = None,
    attach: Annotated[bool, typer.Option("--attach", help="Run in the foreground until Ctrl-C.")] = False,
    output: OutputFormat = "text",
) -> None:
    """Start Kafka, Redis, the coordinator and an executor on this machine.

    Example: dsms up --kafka-port 0 --redis-port 0 --http-port 0
    """
    options = {
        "data_dir": data_dir,
        "kafka_port": kafka_port,
        "redis_port": redis_port,
        "http_port": http_port,
        "postgres_port": postgres_port,
        "load_dir": str(load_dir) if load_dir else None,
        "load_databases": load_databases,
        "python": python,
        "sinks": sinks,
        "without_token": without_token,
        "executors": executors,
    }
    from dsms.local import supervisor  # imported when needed: it loads the clients of all services

    settings = load_settings(os.environ, options)
    if attach:
        supervisor.run_foreground(settings, note)
        return
    state = supervisor.up(settings, report=note)
    if output == "json":
        print_json(_document(state))
    else:
        _print_addresses(state)


def status(
    data_dir: DataDir = DEFAULT_DATA_DIR, coordinator: Coordinator = None, output: OutputFormat = "text"
) -> None:
    """Show the services, executors and fragments. The exit code is 3 when nothing is running.

    Example: dsms status --format json
    """
    state = None if coordinator else running_state(data_dir)
    url = coordinator or (state.coordinator if state else None)
    if state is None and url is None:
        raise ExternalError(f'no cluster is running in "{data_dir}"', hint='start one with "dsms up"')
    document: dict[str, Any] = {"local": _document(state)} if state else {}
    if url and not (state and state.paused_reason):
        take_local_token(url, data_dir)
        document |= _cluster(url, required=state is None)
    if output == "json":
        print_json(document)
        return
    _print_status(state, document.get("cluster"))


def down(data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """Stop the services that `dsms up` started. The data is kept.

    Example: dsms down
    """
    from dsms.local import supervisor  # as in `up`

    if supervisor.down(data_dir, report=note):
        note("stopped")
    else:
        note(f'no cluster is running in "{data_dir}"')


def _cluster(url: str, *, required: bool) -> dict[str, Any]:
    """The coordinator's own status. If the coordinator does not answer, raises when `required`, else prints a note."""
    try:
        with ApiClient(url) as api:
            return {"cluster": api.status()}
    except ExternalError as error:
        if required:
            raise
        note(str(error))
        return {}


def _document(state: LocalState) -> dict[str, Any]:
    return dict(msgspec.json.decode(encode(state)))


def _print_addresses(state: LocalState) -> None:
    console = stdout()
    ours = {"coordinator": state.coordinator, "console": console_url(state)}
    for name, address in {**ours, "kafka": state.kafka, "redis": state.redis, "postgres": state.postgres}.items():
        if address:
            console.print(f"{name:<12}{address}", markup=False)


def _print_status(state: LocalState | None, cluster: dict[str, Any] | None) -> None:
    if state:
        if state.paused_reason:
            stdout().print(f"stopped     {state.paused_reason}", markup=False)
        _print_addresses(state)
        print_documents(_document(state)["services"])
    if cluster and not state and cluster.get("kafka"):
        stdout().print(f"kafka       {cluster['kafka']}", markup=False)
    for title, lines in summary(cluster or {}).items():
        stdout().print(f"{title}:", markup=False)
        print_documents(lines)
    if cluster and not any(cluster.get("lag", {}).values()):
        stdout().print("queries have read all records", markup=False)
