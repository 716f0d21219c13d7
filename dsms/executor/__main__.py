"""`python -m dsms.executor`: one executor process."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from connectors.credentials.secrets import resolved_url
from connectors.kafka.client.properties import kafka_settings
from dsms.command import logged_alarms, serve
from dsms.executor.health import serve_health
from dsms.local.watchdog import Watchdog
from dsms.model.sizes import parse_size
from dsms.runtime.checkpoints.retention import Retention
from dsms.runtime.memory.worker_limit import MIN_MB, set_worker_limit
from dsms.runtime.settings import CheckpointSettings, ExecutorSettings
from dsms.scheduling.registry import choices, parse_policy
from dsms.scheduling.tuning import Tuning
from dsms.spark.scratch import scratch_directory
from dsms.spark.session import renewed_session, spark_session
from dsms.state.stores import StateAddress
from operators.core.call_depth import STACK_BYTES, allow_deep_calls
from operators.core.errors import ConfigError
from operators.python.sandbox import MODE_VARIABLE, MODES, mode_of


def main(  # noqa: PLR0913 one parameter an option
    *,
    kafka: Annotated[str, typer.Option(envvar="DSMS_KAFKA", help="Kafka's bootstrap address, HOST:PORT")],
    redis: Annotated[str, typer.Option(envvar="DSMS_REDIS", help="URL of Redis")],
    coordinator: Annotated[
        str, typer.Option(envvar="DSMS_COORDINATOR", help="URL of the coordinator, which serves the schema registry")
    ],
    data_dir: Annotated[
        Path, typer.Option(envvar="DSMS_DATA_DIR", help="directory for scratch files and the state cache")
    ],
    cluster: Annotated[str, typer.Option(envvar="DSMS_CLUSTER", help="name of the cluster")] = "local",
    registry: Annotated[
        str | None, typer.Option(envvar="DSMS_REGISTRY", help="URL of an external schema registry")
    ] = None,
    id: Annotated[str, typer.Option(envvar="DSMS_ID", help="name of this executor")] = "executor-1",
    master: Annotated[str, typer.Option(envvar="DSMS_MASTER", help="Spark master")] = f"local[{os.cpu_count() or 2},2]",
    driver_host: Annotated[
        str, typer.Option(envvar="DSMS_DRIVER_HOST", help="address by which Spark's executors reach this process")
    ] = "127.0.0.1",
    partitions: Annotated[
        int, typer.Option(envvar="DSMS_PARTITIONS", help="number of targets of every exchange, for new state")
    ] = os.cpu_count() or 2,
    rebuild_for_partitions: Annotated[
        bool,
        typer.Option(
            envvar="DSMS_REBUILD_FOR_PARTITIONS",
            help="rebuild state of another number of targets from the logs; by default it keeps its number",
        ),
    ] = False,
    batch_seconds: Annotated[
        float, typer.Option(envvar="DSMS_BATCH_SECONDS", help="target duration of a batch; its size adapts to this")
    ] = 1.0,
    trigger_interval: Annotated[
        float,
        typer.Option(
            envvar="DSMS_TRIGGER_INTERVAL",
            help="least seconds from one batch to the next while there is no backlog: less CPU, later results",
        ),
    ] = 0.0,
    batch_records: Annotated[
        int, typer.Option(envvar="DSMS_BATCH_RECORDS", help="maximum number of records in a batch")
    ] = ExecutorSettings.max_batch_records,
    policy: Annotated[
        str,
        typer.Option(
            envvar="DSMS_POLICY",
            help="scheduling policy, for batches that cannot hold all input: " + ", ".join(choices()),
        ),
    ] = ExecutorSettings.policy,
    state_memory: Annotated[
        str,
        typer.Option(
            envvar="DSMS_STATE_MEMORY",
            help="maximum state in Redis, such as 500 MB, or none for no limit; the rest is only on disk",
        ),
    ] = "none",
    state_dir: Annotated[
        Path | None,
        typer.Option(
            envvar="DSMS_STATE_DIR",
            help="directory of state files; executors on one host may share it; default: in the data directory",
        ),
    ] = None,
    checkpoints: Annotated[
        str | None,
        typer.Option(
            envvar="DSMS_CHECKPOINTS",
            help="where checkpoints are stored: a directory or s3://BUCKET/PREFIX; default: no checkpoints",
        ),
    ] = None,
    checkpoint_seconds: Annotated[
        float, typer.Option(envvar="DSMS_CHECKPOINT_SECONDS", help="seconds between two checkpoints")
    ] = CheckpointSettings.period_s,
    checkpoints_kept: Annotated[
        int, typer.Option(envvar="DSMS_CHECKPOINTS_KEPT", min=1, help="number of checkpoints to keep for each fragment")
    ] = Retention.last,
    checkpoint_age: Annotated[
        str,
        typer.Option(
            envvar="DSMS_CHECKPOINT_AGE", help="hours after which all checkpoints but the newest are deleted, or none"
        ),
    ] = "none",
    python_sandbox: Annotated[
        str,
        typer.Option(
            envvar=MODE_VARIABLE,
            help="whether functions and aggregates in Python run only in a sandbox: " + ", ".join(MODES),
        ),
    ] = MODES[0],
    worker_memory_mb: Annotated[
        int | None,
        typer.Option(
            envvar="DSMS_WORKER_MEMORY_MB",
            min=256,
            help="memory limit of each Python worker in MiB; default: half the memory of the machine or container, "
            f"divided by the number of concurrent tasks, but at least {MIN_MB}",
        ),
    ] = None,
    kafka_properties: Annotated[
        Path | None,
        typer.Option(envvar="DSMS_KAFKA_PROPERTIES", help="file of Kafka client settings, one NAME=VALUE per line"),
    ] = None,
    health_host: Annotated[
        str, typer.Option(envvar="DSMS_HEALTH_HOST", help="address of the health endpoint")
    ] = "127.0.0.1",
    health_port: Annotated[
        int | None,
        typer.Option(
            envvar="DSMS_HEALTH_PORT", help="port for GET /healthz, /readyz and /metrics; not served by default"
        ),
    ] = None,
) -> None:
    """Runs the fragments that the coordinator assigns to this executor.

    Example: python -m dsms.executor --kafka 127.0.0.1:9092 --redis redis://127.0.0.1:6379
    --coordinator http://127.0.0.1:8080 --data-dir .dsms
    """
    allow_deep_calls()
    threading.stack_size(STACK_BYTES)
    settings = ExecutorSettings(
        kafka_settings(kafka, kafka_properties, os.environ),
        StateAddress(resolved_url(redis, os.environ), cluster).url,
        registry or coordinator,
        data_dir.absolute(),
        cluster,
        id,
        master,
        partitions,
        partitions,
        rebuild_for_partitions=rebuild_for_partitions,
        first_batch_records=min(batch_records, ExecutorSettings.first_batch_records),
        min_batch_records=min(batch_records, ExecutorSettings.min_batch_records),
        max_batch_records=batch_records,
        target_batch_s=batch_seconds,
        trigger_interval_s=trigger_interval,
        policy=str(parse_policy(policy)),
        state_memory=parse_size(state_memory),
        state_dir=state_dir.absolute() if state_dir else None,
        checkpoints=_checkpoints(checkpoints, checkpoint_seconds, checkpoints_kept, checkpoint_age),
        faults=os.environ.get("DSMS_FAULT", ""),
        alarms=logged_alarms(),
    )
    Tuning().over(settings.tunable)  # refuses settings that contradict each other
    os.environ[MODE_VARIABLE] = mode_of({MODE_VARIABLE: python_sandbox})  # Spark's workers inherit it
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    set_worker_limit(worker_memory_mb, master, os.environ)
    with scratch_directory(settings.scratch), ThreadPoolExecutor(1, "spark-session") as starting:
        session = starting.submit(spark_session, master, settings.scratch, partitions, driver_host)
        # imported only here: this import takes as long as the start of the JVM, which runs in the other thread
        from dsms.executor.process import ExecutorProcess
        from dsms.spark.engine import SparkEngine
        from dsms.spark.task_slots import SHORTCUT as LONG_TASKS
        from dsms.telemetry.executor_metrics import EpochMetrics, observe_reports
        from dsms.telemetry.telemetry import Telemetry

        telemetry = Telemetry("dsms-executor", id, os.environ)
        epochs = EpochMetrics(telemetry)
        renew = partial(renewed_session, master=master, scratch=settings.scratch, targets=partitions, host=driver_host)
        process = ExecutorProcess(
            replace(settings, observer=epochs),
            lambda: SparkEngine(
                session.result(), renew, settings.scratch, long_tasks=settings.one_machine and LONG_TASKS.on(os.environ)
            ),
            stopping,
            Watchdog().progress,
        )
        observe_reports(telemetry, process.reports, epochs.behind)
        if health_port is not None:
            serve_health(health_host, health_port, process.health, telemetry.prometheus)
        process.run()
        telemetry.close()


def _checkpoints(url: str | None, period_s: float, last: int, age: str) -> CheckpointSettings | None:
    if not url:
        return None
    if not period_s > 0:
        raise ConfigError(f"--checkpoint-seconds must be greater than 0, not {period_s:g}")
    try:
        age_s = None if age == "none" else float(age) * 3600
    except ValueError as error:
        problem = f'--checkpoint-age must be a number of hours or none, not "{age}"'
        raise ConfigError(problem, hint="for example --checkpoint-age 24") from error
    return CheckpointSettings(url, period_s, Retention(last, age_s))


if __name__ == "__main__":
    serve(main)
