"""Warms up a Spark session that has nothing to run yet, so that it can take over a fragment quickly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dsms.spark.errors import reason_of

log = structlog.get_logger()


def warm_up(spark: SparkSession, tasks: int) -> None:
    """Runs a trivial job that is similar to those of epochs. It loads the JVM's classes, and starts Python workers that
    import the project's modules.
    """
    rows = spark.range(tasks, numPartitions=tasks).repartition(tasks, "id")
    rows.mapInArrow(_import_tasks, rows.schema).toArrow()


def workers_survive(spark: SparkSession, tasks: int) -> bool:
    """Whether the workers survive a trivial job."""
    try:
        warm_up(spark, tasks)
    except (PySparkException, Py4JError) as error:
        log.warning("workers die even of a trivial job", reason=str(reason_of(error)))
        return False
    return True


def _import_tasks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import dsms.runtime.stages.source_task
    import dsms.runtime.stages.target_task  # noqa: F401

    yield from batches
