"""The Spark session of an executor: the one place that configures Spark."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from dsms.runtime.memory import allocators as freed_memory
from dsms.runtime.settings import on_one_machine
from dsms.spark.compat.class_archive import JVM, home, options
from dsms.spark.compat.hidden_pandas import spark_without_pandas
from dsms.spark.compat.spark_home import linked_home
from dsms.spark.scratch import temporary
from dsms.spark.source import StreamSource

__all__ = ["SparkSession", "spark_session"]

_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"
_FILE_MANAGER = f"{_CHECKPOINTING}.FileSystemBasedCheckpointFileManager"
#: Little goes through the JVM: a heap that begins at a share of the machine's memory would be filled all the same.
_HEAP = "-Xms64m -Xmn16m"
#: What workers begin with. Each of their tasks has one core, so more threads of Polars would take turns, and memory.
_WORKERS = {**freed_memory.ENVIRONMENT, "POLARS_MAX_THREADS": "1"}
#: With this Python the JVM would look for data sources in all installed packages, were it a command. Ours is
#: registered, and workers run the Python that they are told.
_NO_COMMAND = "no-data-sources-to-look-for"


def spark_session(master: str, scratch: Path, targets: int) -> SparkSession:
    """A session tuned for small batches of few, large rows. `scratch` must be `emptied`."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    for name, value in _WORKERS.items():
        os.environ.setdefault(name, value)
    os.environ["PYSPARK_DRIVER_PYTHON"] = _NO_COMMAND
    if "SPARK_HOME" not in os.environ and on_one_machine(master):
        os.environ["SPARK_HOME"] = str(home(os.environ) or linked_home(scratch / "home"))
    archive = os.environ.get("DSMS_CLASS_ARCHIVE") or options(os.environ)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": "1g",
        "spark.driver.maxResultSize": "0",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(targets),
        "spark.sql.streaming.pollingDelay": "60ms",
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.numRecentProgressUpdates": "2",
        # the checkpoint is scratch, recovery reads the manifest: no checksum files, and no fork of chmod for each file
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        "spark.sql.streaming.checkpointFileManagerClass": _FILE_MANAGER,
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        "spark.driver.extraJavaOptions": f'{_HEAP} {JVM} "-Djava.io.tmpdir={temporary(scratch)}" {archive}',
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
        "spark.python.worker.reuse": "true",
        "spark.python.daemon.module": "dsms.spark.compat.worker_daemon",
        # over TCP, delayed acknowledgements cost every task 40 to 80 ms
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.rdd.compress": "false",
        "spark.shuffle.compress": "false",
    }
    spark_without_pandas()
    builder = SparkSession.builder.master(master).appName("dsms")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.dataSource.register(StreamSource)
    return session
