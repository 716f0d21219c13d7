"""The project's streaming data source for Spark. The driver plans batches, and workers read them.

Spark imports this module in five processes. Only workers read, so only they import the modules for reading.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Any, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from dsms.runtime.stages.envelope import ENVELOPE
from dsms.spark.plan_client import ask

FORMAT = "dsms"
ADDRESS_OPTION = "address"


class StreamSource(DataSource):  # type: ignore[misc]
    """`spark.readStream.format("dsms").option("address", …)`: the messages of a fragment's source stage."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> str:
        """The columns of an envelope."""
        return ENVELOPE

    def streamReader(self, schema: object) -> FragmentReader:  # noqa: N802 Spark's name
        """The reader of the fragment whose plan server is at the address."""
        return FragmentReader(self.options[ADDRESS_OPTION])


class FragmentReader(DataSourceStreamReader):  # type: ignore[misc]
    """The reader of a fragment's source, as Spark requires it."""

    def __init__(self, address: str) -> None:
        self._address = address

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 Spark's name
        """The positions of the lanes, from the manifest."""
        return cast(dict[str, Any], ask(self._address, "initial"))

    def latestOffset(self, start: dict[str, Any], limit: object) -> dict[str, Any]:  # noqa: N802 Spark's name
        """The end of the next batch."""
        return cast(dict[str, Any], ask(self._address, "latest", start))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The pickled tasks of a batch; only the worker that runs a task unpickles it."""
        return [InputPartition(task) for task in ask(self._address, "tasks", start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs a task; called in a worker."""
        from dsms.runtime.stages.source_task import run_source_task

        return run_source_task(pickle.loads(partition.value))
