"""Running sums: the parts of linear aggregates at every phase of a step, continued from the stored sums."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from operators.aggregates.function import RunningSum
from operators.core.delta import ORDER, WEIGHT
from operators.kernels.phases import PHASE, Phases

_SEGMENT, _FIRST, _COPIES = "__segment", "__first_of_segment", "__copies"


@dataclass(frozen=True)
class RunningSums:
    """The sum of each part at every phase: the group's stored sum + Σ value * weight of its rows up to the phase."""

    parts: tuple[RunningSum, ...]

    def at_phases(self, phases: Phases, rows: pl.DataFrame, stored: pl.DataFrame) -> dict[str, pl.Series]:
        """The sums by part. `rows` are sorted by phase; `stored` has a row for each group, a column for each part."""
        at = rows[PHASE].to_numpy()
        ends = np.searchsorted(at, np.arange(phases.size), side="right")
        begins = np.searchsorted(at, phases.first)[phases.group]
        added = _with_copies(rows, self._floats).select(self._weighted)
        exact = [part.name for part in self.parts if part.kind == "exact"]
        sums = _exact(added.select(exact), begins, ends, stored.select(pl.col(exact).gather(phases.group)))
        for part in self.parts:
            if part.kind == "xor":
                sums[part.name] = _xor(added[part.name], begins, ends, stored[part.name][phases.group])
        for emptied, names in _by_empty_phases(self._floats, sums):
            sums |= _sequential_sums(phases, added.select(names), at, emptied, stored.select(names))
        return sums

    @cached_property
    def _weighted(self) -> tuple[pl.Expr, ...]:
        """Cached, because building these expressions takes longer than evaluating them over a few rows."""
        return tuple(weighted_value(part).alias(part.name) for part in self.parts)

    @cached_property
    def _floats(self) -> tuple[RunningSum, ...]:
        return tuple(part for part in self.parts if part.kind == "float")


def _with_copies(rows: pl.DataFrame, floats: Sequence[RunningSum]) -> pl.DataFrame:
    """Adds a weight column for float sums, one for each filter. Of equal values with the same phase and order, the
    first gets the weight of all and the others 0. As x + x + x may differ from 3x, the result would otherwise depend on
    how copies are divided among elements."""
    filters = dict.fromkeys(part.filter for part in floats)
    at = [PHASE, ORDER]
    tied = floats and rows.select(pl.all_horizontal(pl.col(at) == pl.col(at).shift(1))).to_series().any()
    if not tied:
        return rows.with_columns(pl.col(WEIGHT).alias(_copies(filter)) for filter in filters)
    passing = [filter for filter in filters if filter is not None]
    valued = rows.select(*at, WEIGHT, *passing, *(part.value.alias(part.name) for part in floats))
    counted = []
    for filter in filters:
        values = [part.name for part in floats if part.filter == filter]
        same = [*at, *([] if filter is None else [filter]), *values]
        first = pl.struct(same).is_first_distinct()
        counted.append(pl.when(first).then(pl.col(WEIGHT).sum().over(same)).otherwise(0).alias(_copies(filter)))
    return rows.with_columns(valued.select(counted).get_columns())


def _copies(filter: str | None) -> str:
    return f"{_COPIES}{filter or ''}"


def weighted_value(part: RunningSum) -> pl.Expr:
    """What each row adds to the sum of a part."""
    counts = pl.lit(value=True) if part.filter is None else pl.col(part.filter)
    if part.kind == "xor":
        return pl.when(counts & (pl.col(WEIGHT) % 2 != 0)).then(part.value).otherwise(0)
    value = (part.value * pl.col(_copies(part.filter) if part.kind == "float" else WEIGHT)).cast(part.dtype)
    return value if part.filter is None else pl.when(counts).then(value).otherwise(pl.lit(0, part.dtype))


def _by_empty_phases(
    floats: Sequence[RunningSum], sums: dict[str, pl.Series]
) -> Iterable[tuple[np.ndarray, list[str]]]:
    """Groups the float sums that have no rows at the same phases: a mask of these phases, and the names of the sums."""
    empty = {count: sums[count].to_numpy() == 0 for count in dict.fromkeys(part.counted for part in floats)}
    groups: dict[bytes, tuple[np.ndarray, list[str]]] = {}
    for part in floats:
        empty_phases = empty[part.counted]
        groups.setdefault(empty_phases.tobytes(), (empty_phases, []))[1].append(part.name)
    return groups.values()


def _exact(values: pl.DataFrame, begins: np.ndarray, ends: np.ndarray, stored: pl.DataFrame) -> dict[str, pl.Series]:
    """Sums modulo 2^64 or 2^128: the running sum over all groups, minus its value where the group begins. Modular
    arithmetic keeps that exact even if the running sum overflows."""
    running = pl.all().cum_sum()
    upto, before = (pl.Series(places - 1).replace(-1, None) for places in (ends, begins))
    sums = values.select(running.gather(upto).fill_null(0) - running.gather(before).fill_null(0))
    return {name: sums[name] + stored[name] for name in values.columns}


def _xor(values: pl.Series, begins: np.ndarray, ends: np.ndarray, stored: pl.Series) -> pl.Series:
    running = np.concatenate([[0], np.bitwise_xor.accumulate(values.to_numpy())])
    return pl.Series(values.name, running[ends] ^ running[begins] ^ stored.to_numpy())


def _sequential_sums(
    phases: Phases, values: pl.DataFrame, at: np.ndarray, emptied: np.ndarray, stored: pl.DataFrame
) -> dict[str, pl.Series]:
    """Float sums in the order of rows. A sum starts from the stored one, and again from 0 after a phase at which no
    rows are left. A segment consists of a group's phases from one such start to the next."""
    opens = phases.leads | np.concatenate([[False], emptied[:-1]])[: phases.size]
    segment = (np.cumsum(opens) - 1)[at]
    first = np.concatenate([[True], segment[1:] != segment[:-1]])[: len(segment)]
    continued = phases.leads[np.flatnonzero(opens)][segment] if len(segment) else first
    frame = values.with_columns(pl.Series(_SEGMENT, segment), pl.Series(_FIRST, first & continued))
    before = stored.select(pl.all().gather(phases.group[at]))
    begun = frame.with_columns(
        pl.when(_FIRST).then(pl.col(name) + before[name]).otherwise(pl.col(name)).alias(name) for name in values.columns
    )
    running = begun.select(pl.col(values.columns).cum_sum().over(_SEGMENT, mapping_strategy="explode"))
    last = np.searchsorted(at, np.arange(phases.size), side="right") - 1
    has_row = last >= np.searchsorted(at, np.flatnonzero(opens))[np.cumsum(opens) - 1]
    held = stored.select(pl.all().gather(phases.group))
    return {
        name: _at_phases(running[name].to_numpy(), last, has_row, emptied, held[name].to_numpy())
        for name in values.columns
    }


def _at_phases(
    running: np.ndarray, last: np.ndarray, has_row: np.ndarray, emptied: np.ndarray, held: np.ndarray
) -> pl.Series:
    """The running sum at the last row up to each phase; the stored one where the phase's segment has no row yet."""
    kept = running[np.maximum(last, 0)] if len(running) else np.zeros(len(last))
    return pl.Series(np.where(emptied, 0.0, np.where(has_row, kept, held)))
