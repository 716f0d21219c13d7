"""The logs of a session, which keep records as they were pushed, and the reader of their slices."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import lru_cache

import numpy as np
import polars as pl
import pyarrow as pa

from connectors.formats import RowDecoder, debezium_decode
from dsms.measurements.work import Work
from dsms.model.instants import milliseconds
from dsms.model.objects import Source
from dsms.runtime.batching.offsets import Slice
from dsms.runtime.stages.intake import NO_NUMBER, OUT_OF_RANGE, Arrivals, Intake, no_instant, reading_schema
from dsms.runtime.stages.source_stage import SliceRead, SliceRequest
from dsms.testing.local_tables import INSTANT, OPERATION
from operators.core.clock import Heartbeat
from operators.core.errors import DsmsError, UserError


@dataclass
class Log:
    """The log of a source, with one partition: the pushed records, and the heartbeats between them."""

    records: list[Mapping[str, object]] = field(default_factory=list)
    heartbeats: list[Heartbeat] = field(default_factory=list)
    #: The first offset of each push, and its time in milliseconds, which is the timestamp of its records.
    pushes: list[tuple[int, int]] = field(default_factory=list)

    def arrived(self, offsets: np.ndarray) -> np.ndarray | None:
        """The timestamps of records: 0 for a record that was not pushed. None if nothing was pushed."""
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
            admitted = replace(admitted, delta=admitted.delta.select_columns(request.columns))
            busy_ns = (time.perf_counter_ns() - began) // len(at.lanes)
            passed = admitted.instants_advanced(at.clock)
            work = Work((at.end - at.start,), len(admitted.delta), busy_ns, instants=passed)
            yield request, SliceRead(admitted, work)

    def values(self, slice_: Slice, offsets: set[int]) -> Mapping[int, object]:
        """None for each offset: dead letters need no copies of the records, because the session keeps all of them."""
        return dict.fromkeys(offsets)


def _intake(source: Source) -> Intake:
    upserts, deletions = _decoder(reading_schema(source)), _decoder(reading_schema(source, deletions=True))
    return Intake(source, upserts.decode, deletions.decode)


@lru_cache(maxsize=256)
def _decoder(schema: pa.Schema) -> RowDecoder:
    return RowDecoder(schema)


def _arrivals(source: Source, log: Log, at: Slice) -> Arrivals:
    """Pushed dicts as arrivals. The intake refuses those that have no instant."""
    records, offsets = log.records[at.start : at.end], np.arange(at.start, at.end)
    if source.tagged == debezium_decode.OPERATION:
        records = [{**record, source.tagged: record.get("op", "u")} for record in records]
    given = [record.get(INSTANT if source.table else "ts") for record in records]
    instants = pl.Series([_instant(ts) for ts in given], dtype=pl.Int64)
    wrong = np.flatnonzero((instants == NO_NUMBER).fill_null(False).to_numpy())
    reasons = {int(offsets[i]): no_instant('"ts"', repr(given[i]), type(given[i]).__name__) for i in wrong}
    op = OPERATION if source.table else "op"
    ops = [str(record[op]) if op in record else None for record in records] if source.tagged == "header" else None
    return Arrivals(0, offsets, records, instants, ops, None, at.heartbeats, log.arrived(offsets), no_instants=reasons)


def _instant(ts: object) -> int | None:
    """A pushed instant; None if it is missing. For anything else, a value that the intake refuses with its reason."""
    if ts is None:
        return None
    try:
        instant = as_instant(ts)
    except UserError:
        whole = isinstance(ts, int) and not isinstance(ts, bool)
        return OUT_OF_RANGE if whole else NO_NUMBER
    return min(max(instant, -OUT_OF_RANGE), OUT_OF_RANGE)


def as_instant(ts: object) -> int:
    """The instant that a caller gives: a 64-bit whole number, or a date or datetime as milliseconds since 1970.

    >>> from datetime import datetime
    >>> as_instant(7), as_instant(datetime(1970, 1, 1, 0, 0, 1)), as_instant(date(1970, 1, 2))
    (7, 1000, 86400000)
    """
    if isinstance(ts, date):
        return milliseconds(ts, up=False)
    if isinstance(ts, int | np.integer) and not isinstance(ts, bool) and abs(int(ts)) < 2**63:
        return int(ts)
    raise UserError(f"{ts!r} is not an instant", hint="give a whole number of 64 bits, a date or a datetime")


def as_records(records: Iterable[object]) -> list[dict[str, object]]:
    """The records of a push, checked before any of them is logged. Raises UserError if one is not a dict."""
    pushed = list(records)
    for number, record in enumerate(pushed, 1):
        if not isinstance(record, Mapping):
            raise UserError(f"record {number} of the push is not a dict: {record!r}")
    return [dict(record) for record in pushed if isinstance(record, Mapping)]
