"""The cluster that a command talks to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dsms.cli.api_client import ApiClient
from dsms.local.access_token import local_token
from dsms.local.state import running_state
from operators.core.errors import ExternalError

if TYPE_CHECKING:
    from connectors.kafka.client.config import KafkaSettings

DataDir = Annotated[
    Path, typer.Option("--data-dir", envvar="DSMS_DATA", help='Directory in which "dsms up" keeps data and state.')
]
Coordinator = Annotated[
    str | None,
    typer.Option(
        "--coordinator", envvar="DSMS_COORDINATOR", help="URL of the coordinator, instead of the one in --data-dir."
    ),
]
OutputFormat = Annotated[Literal["text", "json"], typer.Option("--format", help="Format of the output.")]
DEFAULT_DATA_DIR = Path(".dsms")


def coordinator_url(coordinator: str | None, data_dir: Path) -> str:
    """The given URL, else that of the cluster that runs in the data directory. Raises ExternalError if no cluster runs
    there, or if it is stopped for lack of disk space."""
    if coordinator:
        return coordinator
    state = running_state(data_dir)
    if state is None or state.coordinator is None:
        raise ExternalError(
            f'no cluster is running in "{data_dir}"', hint='start one with "dsms up", or pass --coordinator URL'
        )
    if state.paused_reason:
        raise ExternalError(state.paused_reason)
    return state.coordinator


def connect(coordinator: str | None, data_dir: Path) -> ApiClient:
    """A client of the coordinator, with the token of the environment or that of the data directory."""
    url = coordinator_url(coordinator, data_dir)
    take_local_token(url, data_dir)
    return ApiClient(url)


def take_local_token(url: str, data_dir: Path) -> None:
    """Sets `DSMS_TOKEN` in this process to the token of the cluster in the data directory, if that cluster has this URL
    and no token is set yet."""
    if "DSMS_TOKEN" not in os.environ and (token := local_token(url, data_dir)) is not None:
        os.environ["DSMS_TOKEN"] = token


def kafka_settings(api: ApiClient) -> KafkaSettings:
    """The client settings of the cluster's Kafka: its address comes from the coordinator, the rest from the
    environment."""
    from connectors.kafka.client.properties import (
        kafka_settings as settings_of,  # imports a client that few commands need
    )

    address = api.status().get("kafka")
    if not address:
        raise ExternalError(f'the coordinator at "{api.url}" reports no Kafka address')
    file = os.environ.get("DSMS_KAFKA_PROPERTIES")
    return settings_of(str(address), Path(file) if file else None, os.environ)
