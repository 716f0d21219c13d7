"""The Python processes in which Spark makes a stream's source and plans it end with the stream's first batch.

They are needed once, and would stay for ever. Spark starts others for the next stream. Their factories are found in a
private field of `SparkEnv`, by reflection.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import structlog
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from dsms.spark.compat.trick import Trick

TRICK = Trick("helper_processes", "120 MB in the first minute of an executor, 48 MB after it")
log = structlog.get_logger()
_ENV = "org.apache.spark.SparkEnv"
#: What the names of their modules begin with.
HELPERS = "pyspark.sql.worker."
#: The streams of this process that have not had their first batch.
_starting: set[str] = set()
_lock = threading.Lock()


def expect_first_batch(stream: str) -> None:
    """A stream is about to start: until it has started, helpers stay."""
    with _lock:
        _starting.add(stream)


def end_helpers(stream: str, spark: SparkSession) -> None:
    """Ends the helpers once no stream is starting. A stream that is stopped or has had a batch needs them no more."""
    with _lock:
        if stream in _starting:
            _starting.remove(stream)
            if not _starting and TRICK.on(os.environ):
                _end(spark)


def _end(spark: SparkSession) -> None:
    """Stops the factories of such processes, as Spark itself does when one of their processes fails. It has no name for
    that in public, so where it is another Spark they stay."""
    try:
        pairs = _private_field(spark, _ENV, "pythonWorkers", _private_field(spark, f"{_ENV}$", "env", None)).iterator()
        while pairs.hasNext():
            pair = pairs.next()
            if HELPERS in pair._1().toString():
                pair._2().stop()
    except Py4JError as error:
        log.warning("Spark's helpers could not be ended", reason=str(error))


def _private_field(spark: SparkSession, owner: str, name: str, instance: Any) -> Any:
    """What a private field holds; of an object of Scala's where there is no instance."""
    jvm: Any = spark._jvm
    field = jvm.java.lang.Class.forName(owner).getDeclaredField(name)
    field.setAccessible(True)
    return field.get(instance)
