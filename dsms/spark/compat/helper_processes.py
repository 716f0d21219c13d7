"""Ends Spark's helpers after a stream's first batch: the Python processes in which Spark creates and plans its source.

Helpers are needed only at the start of a stream, but never end by themselves. Spark starts new ones for the next
stream. Reflection finds their factories in a private field of `SparkEnv`.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import structlog
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from dsms.spark.compat.shortcut import Shortcut

SHORTCUT = Shortcut("helper_processes", "114 MB in the first minute of an executor, 48 MB after it")
log = structlog.get_logger()
_ENV = "org.apache.spark.SparkEnv"
#: The prefix of the names of these processes' modules.
HELPERS = "pyspark.sql.worker."
#: The streams of this process that have not had their first batch yet.
_starting: set[str] = set()
_lock = threading.Lock()


def expect_first_batch(stream: str) -> None:
    """Keeps the helpers alive for a stream that is about to start."""
    with _lock:
        _starting.add(stream)


def end_helpers(stream: str, spark: SparkSession) -> None:
    """Ends the helpers, unless another stream is starting. Callers call it when a stream has its first batch or is
    stopped, because from then on it needs no helpers.
    """
    with _lock:
        if stream in _starting:
            _starting.remove(stream)
            if not _starting and SHORTCUT.on(os.environ):
                _end(spark)


def _end(spark: SparkSession) -> None:
    """Stops the factories of the helpers, as Spark itself does when one of their processes fails. Spark has no public
    method for this. If it fails with another version of Spark, the helpers stay.
    """
    try:
        pairs = _private_field(spark, _ENV, "pythonWorkers", _private_field(spark, f"{_ENV}$", "env", None)).iterator()
        while pairs.hasNext():
            pair = pairs.next()
            if HELPERS in pair._1().toString():
                pair._2().stop()
    except Py4JError as error:
        log.warning("Spark's helper processes could not be stopped", reason=str(error))


def _private_field(spark: SparkSession, owner: str, name: str, instance: Any) -> Any:
    """The value of a private field of a Java object; without an instance, of a static field."""
    jvm: Any = spark._jvm
    field = jvm.java.lang.Class.forName(owner).getDeclaredField(name)
    field.setAccessible(True)
    return field.get(instance)
