"""The Spark session from which the archive of classes is recorded: `python -m dsms.spark.archived_session DIRECTORY`.

It does the same as an executor at its start. `dsms.spark.compat.class_archive` runs it with the JVM option that writes
the archive when the JVM ends.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark import SparkContext

from dsms.spark.scratch import scratch_directory
from dsms.spark.session import spark_session
from dsms.spark.warm_up import warm_up

#: The longest time for which the JVM may write the archive.
_TIMEOUT_S = 300


def run(scratch: Path) -> None:
    """Starts a session in a scratch directory, warms it up, runs one short stream, and ends the JVM."""
    with scratch_directory(scratch):
        spark = spark_session("local[2]", scratch, 2)
        warm_up(spark, 2)
        stream = spark.readStream.format("rate").load().repartition(2).writeStream
        query = stream.foreachBatch(_collect).option("checkpointLocation", str(scratch / "checkpoint")).start()
        query.processAllAvailable()
        query.stop()
        spark.stop()
        gateway = SparkContext._gateway
        assert gateway is not None
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(_TIMEOUT_S)


def _collect(rows: object, _: int) -> None:
    rows.toArrow()  # type: ignore[attr-defined]


if __name__ == "__main__":
    run(Path(sys.argv[1]))
