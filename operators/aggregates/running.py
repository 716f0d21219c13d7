"""Running sums: the parts of linear aggregates at every cell, from the stored ones on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from operators.aggregates.function import Part
from operators.cells import CELL, Cells
from operators.delta import ORDER, WEIGHT

_SEGMENT, _FIRST, _COPIES = "__segment", "__first_of_segment", "__copies"


def running_sums(cells: Cells, rows: pl.DataFrame, parts: Sequence[Part], stored: pl.DataFrame) -> dict[str, pl.Series]:
    """For each part its sum at every cell: stored at the cell's group + Σ value * weight of the rows up to the cell.

    `rows` are sorted by cell; `stored` has one row a group and a column a part.
    """
    at = rows[CELL].to_numpy()
    ends = np.searchsorted(at, np.arange(cells.size), side="right")
    begins = np.searchsorted(at, cells.first)[cells.group]
    weighted = rows.with_columns(_copies(rows, parts)).select(_weighted(part).alias(part.name) for part in parts)
    exact = [part.name for part in parts if part.kind == "exact"]
    sums = _exact(weighted.select(exact), begins, ends, stored.select(pl.col(exact).gather(cells.group)))
    for part in parts:
        if part.kind == "xor":
            sums[part.name] = _xor(weighted[part.name], begins, ends, stored[part.name][cells.group])
    counts = {part.counted for part in parts if part.kind == "float"}
    for count in counts:
        floats = [part.name for part in parts if part.counted == count]
        sums |= _floats(cells, weighted.select(floats), at, sums[count].to_numpy(), stored)
    return sums


def _copies(rows: pl.DataFrame, parts: Sequence[Part]) -> pl.Series:
    """The weights for sums of floats: of equal values that tie in cell and order the first has all copies. x + x + x is
    not 3x, and how copies are divided among elements must not show."""
    floats = [part for part in parts if part.kind == "float"]
    at = [CELL, ORDER]
    tied = (
        rows.select(pl.all_horizontal(pl.col(at) == pl.col(at).shift(1))).to_series() if floats else pl.Series([False])
    )
    if not tied.any():
        return rows[WEIGHT].alias(_COPIES)
    same = [*at, *(part.name for part in floats)]
    valued = rows.select(*at, WEIGHT, *(part.value.alias(part.name) for part in floats))
    first = pl.struct(same).is_first_distinct()
    return valued.select(pl.when(first).then(pl.col(WEIGHT).sum().over(same)).otherwise(0).alias(_COPIES)).to_series()


def _weighted(part: Part) -> pl.Expr:
    if part.kind == "xor":
        return pl.when(pl.col(WEIGHT) % 2 != 0).then(part.value).otherwise(0)
    return (part.value * pl.col(_COPIES if part.kind == "float" else WEIGHT)).cast(part.dtype)


def _exact(values: pl.DataFrame, begins: np.ndarray, ends: np.ndarray, stored: pl.DataFrame) -> dict[str, pl.Series]:
    """Sums modulo 2^64 or 2^128: a running sum over all groups, less what it was at the group's begin, is right."""
    running = pl.all().cum_sum()
    upto, before = (pl.Series(places - 1).replace(-1, None) for places in (ends, begins))
    sums = values.select(running.gather(upto).fill_null(0) - running.gather(before).fill_null(0))
    return {name: sums[name] + stored[name] for name in values.columns}


def _xor(values: pl.Series, begins: np.ndarray, ends: np.ndarray, stored: pl.Series) -> pl.Series:
    running = np.concatenate([[0], np.bitwise_xor.accumulate(values.to_numpy())])
    return pl.Series(values.name, running[ends] ^ running[begins] ^ stored.to_numpy())


def _floats(
    cells: Cells, values: pl.DataFrame, at: np.ndarray, count: np.ndarray, stored: pl.DataFrame
) -> dict[str, pl.Series]:
    """Sums one after the other, from the stored one, and from 0 again behind a cell at which nothing is left to sum."""
    empty = np.concatenate([[False], count[:-1] == 0])[: cells.size]
    opens = cells.leads | empty
    segment = (np.cumsum(opens) - 1)[at]
    first = np.concatenate([[True], segment[1:] != segment[:-1]])[: len(segment)]
    continued = cells.leads[np.flatnonzero(opens)][segment] if len(segment) else first
    frame = values.with_columns(pl.Series(_SEGMENT, segment), pl.Series(_FIRST, first & continued))
    begun = frame.with_columns(
        pl.when(_FIRST).then(pl.col(name) + stored[name][cells.group[at]]).otherwise(pl.col(name)).alias(name)
        for name in values.columns
    )
    running = begun.select(pl.col(values.columns).cum_sum().over(_SEGMENT, mapping_strategy="explode"))
    last = np.searchsorted(at, np.arange(cells.size), side="right") - 1
    own = last >= np.searchsorted(at, np.flatnonzero(opens))[np.cumsum(opens) - 1]
    return {
        name: _at_cells(running[name].to_numpy(), last, own, count, stored[name][cells.group].to_numpy())
        for name in values.columns
    }


def _at_cells(
    running: np.ndarray, last: np.ndarray, own: np.ndarray, count: np.ndarray, stored: np.ndarray
) -> pl.Series:
    """The running sum at the last row up to each cell; where its segment has no row yet, what it began with."""
    kept = running[np.maximum(last, 0)] if len(running) else np.zeros(len(last))
    return pl.Series(np.where(count == 0, 0.0, np.where(own, kept, stored)))
