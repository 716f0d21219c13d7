"""Our Spark streaming data source: batches are planned beside the driver and read in the workers.

Spark imports this module in five processes, of which one plans and the workers read: what these need is imported where
it is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from dsms.executor.routed import ROUTED

if TYPE_CHECKING:
    from dsms.executor.planning import BatchPlanner

FORMAT = "dsms"
CONTROL_OPTION = "control"


class StreamSource(DataSource):  # type: ignore[misc]
    """`spark.readStream.format("dsms").option("control", path)`: the routed rows of a fragment."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> str:
        """The columns of a routed row."""
        return ROUTED

    def streamReader(self, schema: object) -> FragmentReader:  # noqa: N802 Spark's name
        """The reader of the fragment that the control file describes."""
        return FragmentReader(Path(self.options[CONTROL_OPTION]))


class FragmentReader(DataSourceStreamReader):  # type: ignore[misc]
    """What Spark asks of the source of a fragment."""

    def __init__(self, control: Path) -> None:
        self._path = control

    @cached_property
    def _planner(self) -> BatchPlanner:
        from dsms.executor.planning import BatchPlanner
        from dsms.pandas_hidden import without_pandas

        without_pandas()
        return BatchPlanner(self._path)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 Spark's name
        """Where the manifest says that lanes stand."""
        return self._planner.initial()

    def latestOffset(self, start: dict[str, Any], limit: object) -> dict[str, Any]:  # noqa: N802 Spark's name
        """Up to where the next batch goes."""
        return self._planner.latest(start)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """One task for each core."""
        return self._planner.tasks(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs in a worker."""
        from dsms.executor.source_task import run_source_task

        return run_source_task(partition)
