"""`dsms checkpoint`: the checkpoints of a cluster, in the store that its executors copy them to."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.kafka.client.properties import kafka_settings
from dsms.cli.catch_up import progress_bars
from dsms.cli.cluster import DEFAULT_DATA_DIR, Coordinator, DataDir, OutputFormat, connect
from dsms.cli.output import note, print_documents, print_json
from operators.core.errors import ExternalError, UserError

if TYPE_CHECKING:
    from dsms.runtime.checkpoints.checkpoint import Checkpoint
    from dsms.runtime.checkpoints.store import CheckpointStore

checkpoint = typer.Typer(no_args_is_help=True, help="List, make, check and copy the checkpoints of a cluster.")
Store = Annotated[
    str,
    typer.Option("--checkpoints", envvar="DSMS_CHECKPOINTS", help="The store: a directory or s3://BUCKET/PREFIX."),
]
Name = Annotated[str, typer.Option("--cluster", envvar="DSMS_CLUSTER", help="Name of the cluster.")]
_POLL_S = 0.5


@checkpoint.command("list")
def list_(store: Store, cluster: Name = "local", output: OutputFormat = "text") -> None:
    """List the checkpoints of all fragments, the newest first.

    Example: dsms checkpoint list --checkpoints s3://state/dsms --cluster main
    """
    documents = []
    for found in _stores(store, cluster):
        checkpoints = found.find()
        documents += [_document(made) for made in checkpoints.checkpoints]
        for name, reason in checkpoints.damaged.items():
            note(f"{name}: {reason}")
    if output == "json":
        print_json(documents)
    else:
        print_documents(documents)


@checkpoint.command("create")
def create(
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the checkpoints.")] = 300.0,
    output: OutputFormat = "text",
    data_dir: DataDir = DEFAULT_DATA_DIR,
    coordinator: Coordinator = None,
) -> None:
    """Make a checkpoint of every fragment now, and wait for it.

    Example: dsms checkpoint create --coordinator http://127.0.0.1:8080
    """
    with connect(coordinator, data_dir) as api, progress_bars() as bars:
        number, deadline = api.request_checkpoint(), time.monotonic() + timeout
        task = bars.add_task("checkpoints", total=None, rate="")
        while True:
            executors = api.status()["executors"].values()
            made = {name: each for executor in executors for name, each in executor.get("checkpoints", {}).items()}
            if not made and executors:
                raise UserError("no executor makes checkpoints", hint="start executors with --checkpoints URL")
            if errors := [f"fragment {name}: {each['error']}" for name, each in made.items() if each["error"]]:
                raise ExternalError("; ".join(errors))
            served = sum(each["served"] >= number for each in made.values())
            bars.update(task, total=len(made) or None, completed=served, rate=f"{served} of {len(made)} fragments")
            if made and served == len(made):
                break
            if time.monotonic() > deadline:
                raise ExternalError(f"no checkpoint was made within {timeout:g} s")
            time.sleep(_POLL_S)
    documents = [{"fragment": name, "id": each["id"], "bytes": each["bytes"]} for name, each in sorted(made.items())]
    if output == "json":
        print_json(documents)
    else:
        print_documents(documents)


@checkpoint.command("verify")
def verify(
    store: Store,
    id: Annotated[str | None, typer.Argument(help="Id of a checkpoint; all by default.")] = None,
    cluster: Name = "local",
) -> None:
    """Read every run and catalog copy of the checkpoints, and compare checksums. The exit code is 1 if any is damaged.

    Example: dsms checkpoint verify --checkpoints /backup/dsms
    """
    wrong, count = list[str](), 0
    for found in _stores(store, cluster):
        checkpoints = found.find()
        wrong += [reason for name, reason in checkpoints.damaged.items() if id in (None, name)]
        for made in checkpoints.checkpoints:
            if id in (None, made.id):
                count += 1
                wrong += [f"checkpoint {made.id} of fragment {made.fragment}: {each}" for each in found.verify(made)]
    if id is not None and not count and not wrong:
        raise UserError(
            f'there is no checkpoint "{id}" of cluster "{cluster}"', hint="dsms checkpoint list shows all of them"
        )
    for line in wrong:
        note(line)
    if wrong:
        raise UserError(f"{len(wrong)} copies are damaged", hint="recovery uses the newest undamaged checkpoint")
    note(f"{count} checkpoints are undamaged")


@checkpoint.command("restore")
def restore(  # noqa: PLR0913 one parameter an option
    *,
    store: Store,
    to: Annotated[str, typer.Option("--to", help="Name of the new cluster.")],
    kafka: Annotated[str, typer.Option(envvar="DSMS_KAFKA", help="Kafka's bootstrap address, HOST:PORT.")],
    kafka_properties: Annotated[
        Path | None,
        typer.Option(envvar="DSMS_KAFKA_PROPERTIES", help="File of Kafka client settings, one NAME=VALUE per line."),
    ] = None,
    cluster: Name = "local",
    id: Annotated[
        list[str] | None,
        typer.Option(
            "--id",
            help="Id of a checkpoint; other fragments use their newest undamaged one. May be given several times.",
        ),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            help="OLD=NEW: topic of a source, and its name in the new cluster. May be given several times.",
        ),
    ] = None,
    prefix: Annotated[str, typer.Option(help="Prefix of the topics of results and dead letters.")] = "",
) -> None:
    """Make a new cluster that continues from the checkpoints of another one, such as a copy of production for a test.

    Recovery of the cluster itself needs no command: its executors do it. Start the new cluster like any other, with its
    own name and the same store.

    Example: dsms checkpoint restore --checkpoints s3://state/dsms --cluster main --to test --kafka 127.0.0.1:9092
    --prefix test.
    """
    from connectors.objects.store import ObjectStore
    from dsms.coordinator.catalog.copied_catalog import Naming
    from dsms.coordinator.service.cluster_copy import CopyOrder, copy_cluster

    if to == cluster:
        raise UserError(
            "the new cluster needs a different name than the old one",
            hint="executors recover a cluster from its checkpoints themselves",
        )
    chosen = tuple(_chosen(found, id or []) for found in _stores(store, cluster))
    naming = Naming(dict(_pair(each) for each in topic or []), prefix)
    order = CopyOrder(chosen, kafka_settings(kafka, kafka_properties, os.environ), to, naming)
    made = copy_cluster(order, ObjectStore(store))
    print_documents([_document(each) for each in made])
    note(f'start coordinator and executors with --cluster {to}, the executors also with --checkpoints "{store}"')


def _chosen(store: CheckpointStore, ids: list[str]) -> Checkpoint:
    """The newest undamaged checkpoint of a fragment, among those with one of the ids if there are any. Raises UserError
    if all are damaged."""
    found = store.find().checkpoints
    wanted = [each for each in found if each.id in ids] or list(found)
    sound = next((each for each in wanted if not store.verify(each)), None)
    if sound is None:
        raise UserError("each checkpoint of a fragment has damaged copies", hint="dsms checkpoint verify lists them")
    return sound


def _pair(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not (old and equals and new):
        raise UserError(f'--topic takes OLD=NEW, not "{text}"')
    return old, new


def _stores(url: str, cluster: str) -> Iterator[CheckpointStore]:
    # imported only here: S3's client takes seconds to import, and no other command needs it
    from connectors.objects.store import ObjectStore
    from dsms.runtime.checkpoints.store import CheckpointStore, fragments

    objects = ObjectStore(url)
    names = fragments(objects, cluster)
    if not names:
        raise UserError(f'there is no checkpoint of cluster "{cluster}" in "{url}"')
    return (CheckpointStore(objects, cluster, name) for name in names)


def _document(made: Checkpoint) -> dict[str, object]:
    state = made.state
    return {
        "fragment": made.fragment,
        "id": made.id,
        "created": datetime.fromtimestamp(made.created, UTC).isoformat(timespec="seconds"),
        "epoch": state.epoch if state else None,
        "plan_version": state.plan_version if state else None,
        "runs": len(made.runs),
        "bytes": made.bytes,
    }
