"""Running sums: the parts of linear aggregates at every cell, from the stored ones on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from operators.aggregates.function import Part
from operators.core.delta import ORDER, WEIGHT
from operators.kernels.cells import CELL, Cells

_SEGMENT, _FIRST, _COPIES = "__segment", "__first_of_segment", "__copies"


@dataclass(frozen=True)
class RunningSums:
    """For each part its sum at every cell: stored at the cell's group + Σ value * weight of the rows up to the cell."""

    parts: tuple[Part, ...]

    def at_cells(self, cells: Cells, rows: pl.DataFrame, stored: pl.DataFrame) -> dict[str, pl.Series]:
        """`rows` are sorted by cell; `stored` has one row a group and a column a part."""
        at = rows[CELL].to_numpy()
        ends = np.searchsorted(at, np.arange(cells.size), side="right")
        begins = np.searchsorted(at, cells.first)[cells.group]
        added = _with_copies(rows, self._floats).select(self._weighted)
        exact = [part.name for part in self.parts if part.kind == "exact"]
        sums = _exact(added.select(exact), begins, ends, stored.select(pl.col(exact).gather(cells.group)))
        for part in self.parts:
            if part.kind == "xor":
                sums[part.name] = _xor(added[part.name], begins, ends, stored[part.name][cells.group])
        for nothing, names in _alike(self._floats, sums):
            sums |= _in_turn(cells, added.select(names), at, nothing, stored.select(names))
        return sums

    @cached_property
    def _weighted(self) -> tuple[pl.Expr, ...]:
        """Made once: to make them takes longer than to evaluate them over a few rows."""
        return tuple(weighted_value(part).alias(part.name) for part in self.parts)

    @cached_property
    def _floats(self) -> tuple[Part, ...]:
        return tuple(part for part in self.parts if part.kind == "float")


def _with_copies(rows: pl.DataFrame, floats: Sequence[Part]) -> pl.DataFrame:
    """The rows with the weights for sums of floats: of equal values that tie in cell and order the first has all
    copies. x + x + x is not 3x, and how copies are divided among elements must not show."""
    filters = dict.fromkeys(part.filter for part in floats)
    at = [CELL, ORDER]
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


def weighted_value(part: Part) -> pl.Expr:
    """What each row adds to a sum."""
    counts = pl.lit(value=True) if part.filter is None else pl.col(part.filter)
    if part.kind == "xor":
        return pl.when(counts & (pl.col(WEIGHT) % 2 != 0)).then(part.value).otherwise(0)
    value = (part.value * pl.col(_copies(part.filter) if part.kind == "float" else WEIGHT)).cast(part.dtype)
    return value if part.filter is None else pl.when(counts).then(value).otherwise(pl.lit(0, part.dtype))


def _alike(floats: Sequence[Part], sums: dict[str, pl.Series]) -> Iterable[tuple[np.ndarray, list[str]]]:
    """The sums of floats of which nothing is left at the same cells, and whether that is so at each."""
    empty = {count: sums[count].to_numpy() == 0 for count in dict.fromkeys(part.counted for part in floats)}
    found: dict[bytes, tuple[np.ndarray, list[str]]] = {}
    for part in floats:
        nothing = empty[part.counted]
        found.setdefault(nothing.tobytes(), (nothing, []))[1].append(part.name)
    return found.values()


def _exact(values: pl.DataFrame, begins: np.ndarray, ends: np.ndarray, stored: pl.DataFrame) -> dict[str, pl.Series]:
    """Sums modulo 2^64 or 2^128: a running sum over all groups, less what it was at the group's begin, is right."""
    running = pl.all().cum_sum()
    upto, before = (pl.Series(places - 1).replace(-1, None) for places in (ends, begins))
    sums = values.select(running.gather(upto).fill_null(0) - running.gather(before).fill_null(0))
    return {name: sums[name] + stored[name] for name in values.columns}


def _xor(values: pl.Series, begins: np.ndarray, ends: np.ndarray, stored: pl.Series) -> pl.Series:
    running = np.concatenate([[0], np.bitwise_xor.accumulate(values.to_numpy())])
    return pl.Series(values.name, running[ends] ^ running[begins] ^ stored.to_numpy())


def _in_turn(
    cells: Cells, values: pl.DataFrame, at: np.ndarray, nothing: np.ndarray, stored: pl.DataFrame
) -> dict[str, pl.Series]:
    """Sums one after the other, from the stored one, and from 0 again behind a cell at which nothing is left to sum."""
    opens = cells.leads | np.concatenate([[False], nothing[:-1]])[: cells.size]
    segment = (np.cumsum(opens) - 1)[at]
    first = np.concatenate([[True], segment[1:] != segment[:-1]])[: len(segment)]
    continued = cells.leads[np.flatnonzero(opens)][segment] if len(segment) else first
    frame = values.with_columns(pl.Series(_SEGMENT, segment), pl.Series(_FIRST, first & continued))
    before = stored.select(pl.all().gather(cells.group[at]))
    begun = frame.with_columns(
        pl.when(_FIRST).then(pl.col(name) + before[name]).otherwise(pl.col(name)).alias(name) for name in values.columns
    )
    running = begun.select(pl.col(values.columns).cum_sum().over(_SEGMENT, mapping_strategy="explode"))
    last = np.searchsorted(at, np.arange(cells.size), side="right") - 1
    own = last >= np.searchsorted(at, np.flatnonzero(opens))[np.cumsum(opens) - 1]
    held = stored.select(pl.all().gather(cells.group))
    return {
        name: _at_cells(running[name].to_numpy(), last, own, nothing, held[name].to_numpy()) for name in values.columns
    }


def _at_cells(
    running: np.ndarray, last: np.ndarray, own: np.ndarray, nothing: np.ndarray, held: np.ndarray
) -> pl.Series:
    """The running sum at the last row up to each cell; where its segment has no row yet, what it began with."""
    kept = running[np.maximum(last, 0)] if len(running) else np.zeros(len(last))
    return pl.Series(np.where(nothing, 0.0, np.where(own, kept, held)))
