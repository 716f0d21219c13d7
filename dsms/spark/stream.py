"""Runs a fragment as a Structured Streaming query over the project's source, and passes each batch to a function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import structlog
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from dsms.runtime.batching.planner import Calls
from dsms.runtime.stages.envelope import ENVELOPE
from dsms.runtime.stages.target_task import TargetTask
from dsms.runtime.stages.wire import DRIVER, Envelope, envelopes
from dsms.spark.compat import helper_processes
from dsms.spark.errors import reason_of
from dsms.spark.long_batch import LongBatch, TaskBatch
from dsms.spark.plan_server import PlanServer
from dsms.spark.source import ADDRESS_OPTION, FORMAT
from dsms.spark.task_slots import TaskSlots
from operators.core.errors import DsmsError

log = structlog.get_logger()


class Batch:
    """The messages of the source stage of a batch. They are computed by `run`, or earlier by `read`."""

    def __init__(self, sent: DataFrame, read: Iterable[Envelope] = ()) -> None:
        self._sent, self._read = sent, read

    def read(self) -> tuple[list[Envelope], Batch]:
        """Runs the source stage as a separate Spark job. Returns its messages to the driver, and the batch whose `run`
        is next.
        """
        table = _collected(self._sent)
        to_driver = pc.equal(table.column("stage"), pa.scalar(DRIVER, pa.int32()))
        read = list(envelopes(table.filter(to_driver)))
        return read, Batch(self._sent.sparkSession.createDataFrame(table.filter(pc.invert(to_driver))), read)

    def run(self, stages: Sequence[TargetTask], targets: int) -> Iterator[Envelope]:
        """Runs all `stages` as one Spark job, with an exchange before each, and yields the messages to the driver. A
        stage passes on the messages that are not for it.
        """
        rows = self._sent
        for stage in stages:
            exchanged = rows.repartitionById(targets, rows.target)
            rows = exchanged.mapInArrow(stage, ENVELOPE)
        yield from self._read
        yield from envelopes(_collected(rows))


def _collected(rows: DataFrame) -> pa.Table:
    """Runs the job and returns its rows. Raises the DsmsError that a worker has raised, or one with Spark's reason."""
    try:
        collected: pa.Table = rows.toArrow()
        return collected
    except (PySparkException, Py4JJavaError) as error:
        raise reason_of(error) from error


class FragmentStream:
    """A Structured Streaming query that runs until it is stopped or `on_batch` raises. Its batches are planned by
    `calls`. `directories` are that of Spark's checkpoint, whose files are not needed later, because recovery reads the
    manifest, and that of the plan server's socket. Long-running tasks in the `slots` compute the batches; Spark's jobs
    do if that is None.
    """

    def __init__(
        self,
        spark: SparkSession,
        name: str,
        directories: tuple[Path, Path],
        calls: Calls,
        on_batch: Callable[[Batch | TaskBatch], None],
        slots: TaskSlots | None,
    ) -> None:
        self._spark, self._name, self._on_batch = spark, name, on_batch
        self._checkpoint, sockets = directories
        self._long = LongBatch(calls, slots, on_batch) if slots else None
        self._plans = PlanServer(sockets, self._long.calls if self._long else calls)
        self._query: StreamingQuery | None = None
        self._failed: DsmsError | None = None

    def start(self) -> None:
        """Starts the query. Raises DsmsError if Spark cannot start it."""
        helper_processes.expect_first_batch(self._name)
        try:
            rows = self._spark.readStream.format(FORMAT).option(ADDRESS_OPTION, self._plans.address).load()
            writer = rows.writeStream.foreachBatch(self._batch).queryName(self._name)
            self._query = writer.option("checkpointLocation", str(self._checkpoint)).start()
        except (PySparkException, Py4JJavaError) as error:  # PySpark wraps most errors of the JVM, but not all
            raise reason_of(error) from error

    def check(self) -> None:
        """Raises the error that ended the query, if it has ended: the project's errors unchanged, others by Spark's
        text.
        """
        if self._failed is not None:
            raise self._failed
        assert self._query is not None
        if not self._query.isActive:
            raise reason_of(self._query.exception())

    def stop(self) -> None:
        """Stops the query, after a running `on_batch` has finished."""
        self._plans.stop_waiting()
        if self._long is not None:
            self._long.stop()
        if self._query is not None:
            try:
                self._query.stop()
            except PySparkException as error:
                log.warning("stopping the query failed", reason=str(error))
        self._plans.close()
        helper_processes.end_helpers(self._name, self._spark)

    def _batch(self, rows: DataFrame, number: int) -> None:
        helper_processes.end_helpers(self._name, self._spark)
        try:
            if self._long is None:
                self._on_batch(Batch(rows))
            else:
                self._long.run()
        except DsmsError as error:
            self._failed = error
            raise
