"""Warming up a Spark session that has nothing to run yet, so that taking a fragment over is quick."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import SparkSession


def warm_up(spark: SparkSession, tasks: int) -> None:
    """Runs a job of the kind that epochs are made of over nothing: its classes are loaded, its Python workers stand
    ready with our modules imported."""
    rows = spark.range(tasks, numPartitions=tasks).repartition(tasks, "id")
    rows.mapInArrow(_import_tasks, rows.schema).toArrow()


def _import_tasks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import dsms.runtime.stages.source_task
    import dsms.runtime.stages.target_task  # noqa: F401

    yield from batches
