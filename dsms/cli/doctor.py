"""`dsms doctor`: checks the logs and the state of a cluster, and repairs them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from connectors.credentials.secrets import resolved_url
from dsms.cli.cluster import DEFAULT_DATA_DIR, DataDir, OutputFormat
from dsms.cli.output import note, print_documents, print_json
from operators.core.errors import ExternalError

UNWELL = 1


def doctor(  # noqa: PLR0913 a parameter an option
    repair: Annotated[
        bool, typer.Option("--repair", help="Repair everything that can be repaired without losing data.")
    ] = False,
    kafka: Annotated[str | None, typer.Option(envvar="DSMS_KAFKA", help="Kafka's address, HOST:PORT.")] = None,
    redis: Annotated[str | None, typer.Option(envvar="DSMS_REDIS", help="URL of Redis.")] = None,
    cluster: Annotated[str, typer.Option(envvar="DSMS_CLUSTER", help="Name of the cluster.")] = "local",
    kafka_properties: Annotated[
        Path | None,
        typer.Option(envvar="DSMS_KAFKA_PROPERTIES", help="File of Kafka client settings, one NAME=VALUE per line."),
    ] = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputFormat = "text",
) -> None:
    """Check the topics, records, manifests, runs and other state of a cluster. Only Kafka and Redis must run.

    The exit code is 1 if a problem remains.

    Example: dsms doctor --repair
    """
    # imported here: the planner and the clients take a second to import, and no other command needs them
    from connectors.kafka.client.properties import kafka_settings
    from dsms.coordinator.doctor.examination import ExaminedCluster, examine
    from dsms.local.state import running_state

    state = running_state(data_dir) if kafka is None or redis is None else None
    address, url = kafka or (state and state.kafka), redis or (state and state.redis)
    if not address or not url:
        raise ExternalError(f'no cluster is running in "{data_dir}"', hint="pass --kafka HOST:PORT and --redis URL")
    url = resolved_url(url, os.environ)
    examined = ExaminedCluster(kafka_settings(address, kafka_properties, os.environ), url, cluster, data_dir)
    findings = examine(examined, repair=repair)
    documents = [finding.document() for finding in findings]
    if output == "json":
        print_json(documents)
    elif documents:
        print_documents(documents)
    else:
        note("no problems found")
    if any(not finding.repaired for finding in findings):
        raise typer.Exit(UNWELL)
