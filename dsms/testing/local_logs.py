"""The logs of a session, which keep records as they were pushed, and the reader of their slices."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import polars as pl
import pyarrow as pa

from connectors.formats import RowDecoder, debezium_decode
from dsms.model.objects import Source
from dsms.runtime.batching.offsets import Slice
from dsms.runtime.stages.intake import Arrivals, Intake, reading_schema
from dsms.runtime.stages.source_stage import SliceRead, SliceRequest
from dsms.scheduler.work import Work
from dsms.testing.local_tables import INSTANT, OPERATION
from operators.core.clock import Heartbeat
from operators.core.errors import DsmsError


@dataclass
class Log:
    """The log of a source, with one partition: the pushed records, and the heartbeats between them."""

    records: list[Mapping[str, object]] = field(default_factory=list)
    heartbeats: list[Heartbeat] = field(default_factory=list)
    #: The first offset of each push, and when it was, in milliseconds: the timestamps of its records.
    pushes: list[tuple[int, int]] = field(default_factory=list)

    def arrived(self, offsets: np.ndarray) -> np.ndarray | None:
        """The timestamps of records; 0 where they were not pushed, None where none was."""
        if not self.pushes:
            return None
        starts, times = np.array(self.pushes, np.int64).T
        return np.append(0, times)[np.searchsorted(starts, offsets, side="right")]


@dataclass(frozen=True)
class LogSlices:
    """Reads slices of logs; `logs` are by the source's id."""

    logs: Mapping[str, Log]

    def read(self, requests: Sequence[SliceRequest]) -> Iterator[tuple[SliceRequest, SliceRead | DsmsError]]:
        """Admits the records of each slice."""
        for request in requests:
            began, at = time.perf_counter_ns(), request.slice
            arrivals = _arrivals(request.source, self.logs[at.source_id], at)
            admitted = _intake(request.source).admit(arrivals, at.clock)
            admitted = replace(admitted, delta=admitted.delta.narrowed(request.columns))
            busy_ns = (time.perf_counter_ns() - began) // len(at.lanes)
            passed = admitted.passed_since(at.clock)
            work = Work((at.end - at.start,), len(admitted.delta), busy_ns, instants=passed)
            yield request, SliceRead(admitted, work)

    def values(self, slice_: Slice, offsets: set[int]) -> Mapping[int, object]:
        """Nothing: a session keeps its records, so it needs no copies of them."""
        return dict.fromkeys(offsets)


def _intake(source: Source) -> Intake:
    upserts, deletions = _decoder(reading_schema(source)), _decoder(reading_schema(source, deletions=True))
    return Intake(source, upserts.decode, deletions.decode)


@lru_cache(maxsize=256)
def _decoder(schema: pa.Schema) -> RowDecoder:
    return RowDecoder(schema)


def _arrivals(source: Source, log: Log, at: Slice) -> Arrivals:
    """Pushed dicts as arrivals. The intake refuses those whose instant is no integer, and gets None for it."""
    records, offsets = log.records[at.start : at.end], np.arange(at.start, at.end)
    if source.tagged == debezium_decode.OPERATION:
        records = [{**record, source.tagged: record.get("op", "u")} for record in records]
    instants = pl.Series([_instant(record, source) for record in records], dtype=pl.Int64)
    op = OPERATION if source.table else "op"
    ops = [str(record[op]) if op in record else None for record in records] if source.tagged == "header" else None
    return Arrivals(0, offsets, records, instants, ops, None, at.heartbeats, log.arrived(offsets))


def _instant(record: Mapping[str, object], source: Source) -> int | None:
    ts = record.get(INSTANT if source.table else "ts")
    return ts if isinstance(ts, int) and not isinstance(ts, bool) and abs(ts) < 2**63 else None
