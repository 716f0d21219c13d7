"""`python -m dsms.coordinator`: the coordinator process."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated

import typer
import uvicorn

from connectors.kafka.config import KafkaSettings
from dsms.coordinator.access import read_tokens
from dsms.coordinator.api import create_app
from dsms.coordinator.core import Coordinator
from dsms.coordinator.loading import LoadPolicy


def main(  # noqa: PLR0913 a parameter an option
    *,
    kafka: Annotated[str, typer.Option(help="Kafka's bootstrap address, HOST:PORT")],
    redis: Annotated[str, typer.Option(help="URL of Redis")],
    http_port: Annotated[int, typer.Option(help="port of the REST API")] = 8080,
    host: Annotated[str, typer.Option(help="address to listen on")] = "127.0.0.1",
    cluster: Annotated[str, typer.Option(help="name of the cluster")] = "local",
    registry: Annotated[str | None, typer.Option(help="URL of an external schema registry, instead of our own")] = None,
    load_dir: Annotated[Path | None, typer.Option(help="directory of files that COPY may read")] = None,
    tokens: Annotated[
        Path | None, typer.Option(help="file of API tokens, from dsms token; without it all may do all")
    ] = None,
    load_databases: Annotated[bool, typer.Option(help="whether LOAD TABLE may connect to databases")] = False,
) -> None:
    """Serves the REST API and assigns fragments to executors.

    Example: python -m dsms.coordinator --kafka 127.0.0.1:9092 --redis redis://127.0.0.1:6379
    """
    loads = LoadPolicy(load_dir, databases=load_databases)
    access = read_tokens(tokens) if tokens else None
    coordinator = Coordinator(KafkaSettings(kafka), redis, cluster, registry, loads)
    stopping = threading.Event()
    watcher = threading.Thread(target=coordinator.watch, args=(stopping,), name="watch")
    coordinator.turn()
    watcher.start()
    try:
        uvicorn.run(
            create_app(coordinator, coordinator.registry, access), host=host, port=http_port, log_level="warning"
        )
    finally:
        stopping.set()
        watcher.join()


if __name__ == "__main__":
    typer.run(main)
