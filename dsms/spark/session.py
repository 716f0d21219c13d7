"""Creates and configures the Spark session of an executor; no other module configures Spark."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyspark
import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dsms.runtime.memory import allocators, worker_limit
from dsms.runtime.settings import on_one_machine
from dsms.spark.compat import scratch_checkpoints, spark_home, worker_daemon
from dsms.spark.compat.class_archive import JVM, home, options
from dsms.spark.compat.hidden_pandas import spark_without_pandas
from dsms.spark.compat.shortcut import untested
from dsms.spark.compat.spark_home import linked_home
from dsms.spark.scratch import make_directories, temporary_directory
from dsms.spark.source import StreamSource

__all__ = ["SparkSession", "renewed_session", "spark_session"]

#: The JVM needs little memory. By default its heap would begin with a fraction of the machine's memory and fill it.
_HEAP = "-Xms64m -Xmn16m"
#: The environment of workers. Each task has one core, so more Polars threads would only take memory.
_WORKERS = {**allocators.ENVIRONMENT, **worker_limit.ENVIRONMENT, "POLARS_MAX_THREADS": "1"}
log = structlog.get_logger()


def renewed_session(old: SparkSession, master: str, scratch: Path, targets: int, host: str) -> SparkSession:
    """Replaces a failing session by a new one with its own files, in the same JVM, and re-creates missing parts of the
    scratch directory. No stream of the old session may be running.
    """
    try:
        old.stop()
    except (PySparkException, Py4JError) as error:
        log.warning("stopping the Spark session failed", reason=str(error))
    make_directories(scratch)
    if os.environ.get("SPARK_HOME") == str(scratch / "home") and not (scratch / "home").exists():
        linked_home(scratch / "home")
    return spark_session(master, scratch, targets, host)


def spark_session(master: str, scratch: Path, targets: int, host: str = "127.0.0.1") -> SparkSession:
    """A session tuned for small batches of few, large rows. `scratch` is the directory that `scratch_directory` has
    created; `host` is the address at which Spark's executors reach this process, if they are not in it."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    for name, value in _WORKERS.items():
        os.environ.setdefault(name, value)
    if "SPARK_HOME" not in os.environ and on_one_machine(master) and spark_home.SHORTCUT.on(os.environ):
        os.environ["SPARK_HOME"] = str(home(os.environ) or linked_home(scratch / "home"))
    if untested(pyspark.__version__):
        log.warning(
            "the shortcuts that rely on Spark's internals are untested with this version", spark=pyspark.__version__
        )
    archive = os.environ.get("DSMS_CLASS_ARCHIVE") or options(os.environ)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": "1g",
        "spark.driver.maxResultSize": "0",
        "spark.driver.bindAddress": host,
        "spark.driver.host": host,
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(targets),
        # short, because the plan server waits until there is something to read
        "spark.sql.streaming.pollingDelay": "10ms",
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.numRecentProgressUpdates": "2",
        "spark.driver.extraJavaOptions": f'{_HEAP} {JVM} "-Djava.io.tmpdir={temporary_directory(scratch)}" {archive}',
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
        "spark.python.worker.reuse": "true",
        # over TCP, delayed acknowledgements cost every task 40 to 80 ms
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.rdd.compress": "false",
        "spark.shuffle.compress": "false",
    }
    limit = {name: os.environ[name] for name in (worker_limit.VARIABLE,) if name in os.environ}
    settings |= {f"spark.executorEnv.{name}": value for name, value in (_WORKERS | limit).items()}
    settings |= scratch_checkpoints.settings(os.environ)
    if worker_daemon.SHORTCUT.on(os.environ):
        settings["spark.python.daemon.module"] = worker_daemon.MODULE
    spark_without_pandas(os.environ)
    builder = SparkSession.builder.master(master).appName("dsms")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.dataSource.register(StreamSource)
    return session
