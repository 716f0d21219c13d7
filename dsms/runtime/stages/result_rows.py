"""Results as they leave a target stage: encoded together where their records are alike, failing one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import polars as pl
from polars.exceptions import PanicException

from connectors.kafka.config import LARGEST_RECORD
from dsms.physical.lane import Ending, Lane, Output
from dsms.runtime.stages.encoding import KEY, VALUE, encode_changes
from dsms.runtime.stages.lane_step import of_member
from operators.core.delta import FROM
from operators.core.errors import ExternalError

CHANGES, LOST = "changes", "lost"
#: A kind of row, the number of what it is about, and its content.
ResultRow = tuple[str, int, bytes]
Pack = Callable[[Iterable[pl.DataFrame]], bytes]
#: The most bytes of key and value together: a record that does not compress takes a little more, and it has headers.
MOST = LARGEST_RECORD - 2**20
#: So many changes are encoded at a time, to bound the memory of their records.
_PIECE = 1 << 14


class _TooLarge(Exception):
    """Which record is larger than can be written."""


def result_rows(
    lane: Lane, changes: Mapping[int, pl.DataFrame], poisoned: str | None, pack: Pack
) -> Iterator[ResultRow]:
    """The changes by ending, and by output why there are none; `poisoned` is a query that fails by configuration,
    and `pack` makes frames bytes."""
    for number, ending in enumerate(lane.endings):
        frame = changes.get(ending.vertex)
        if frame is not None:
            yield from _ending_rows(lane, (number, ending), frame, poisoned, pack)


def _ending_rows(
    lane: Lane, numbered: tuple[int, Ending], changes: pl.DataFrame, poisoned: str | None, pack: Pack
) -> Iterator[ResultRow]:
    """What cannot be encoded is the failure of its query alone: then each member of a family is encoded for itself."""
    number, ending = numbered
    outputs = {one: lane.outputs[one] for one in ending.numbers}
    if all(output.name != poisoned for output in outputs.values()):
        together = _encoded(outputs[ending.numbers[0]], changes, pack)
        if isinstance(together, bytes):
            yield from [(CHANGES, number, together)] if together else []
            return
    for one, output in outputs.items():
        held = of_member(changes, output)
        mine = "poisoned by configuration" if output.name == poisoned else _encoded(output, held, pack)
        if isinstance(mine, str):
            yield LOST, one, mine.encode()
        elif mine:
            yield CHANGES, number, mine


def _encoded(output: Output, changes: pl.DataFrame, pack: Pack) -> bytes | str:
    """The records of changes, empty where there are none; a text says why they cannot be encoded, or not be written."""
    if not changes.height:
        return b""
    try:
        return pack(_fitting(encode_changes(output, piece)) for piece in changes.iter_slices(_PIECE))
    except _TooLarge as error:
        return str(error)
    except (ExternalError, OSError, MemoryError):
        raise
    except (Exception, PanicException) as error:  # noqa: BLE001 the outermost place that knows whose result it is
        return f"{type(error).__name__}: {error}"


def _fitting(records: pl.DataFrame) -> pl.DataFrame:
    """The records, of which none is larger than can be written."""
    if records.estimated_size() <= MOST:
        return records
    parts = [pl.col(name).bin.size().fill_null(0) for name in (KEY, VALUE) if name in records.columns]
    sizes = records.select(FROM, size=pl.sum_horizontal(parts).cast(pl.Int64))
    for instant, size in sizes.filter(pl.col("size") > MOST).head(1).iter_rows():
        raise _TooLarge(f"a result row of {size:,} bytes, at instant {instant}, is too large: {MOST:,} can be written")
    return records
