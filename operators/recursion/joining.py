"""Joins within a recursion: the pairs of changes of one side with the rows of the other side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from operators.core.delta import FROM, ORDER, RESERVED, TO, WEIGHT, Delta
from operators.core.errors import UserError
from operators.kernels.equal_join import equal_join, equal_pairs
from operators.recursion.derivations import LAYER

#: The limit of the pairs of a join at one instant in one iteration; also how many are computed at a time.
MAX_PAIRS = 20_000_000
#: The limit of the pairs before those that cancel out are removed.
MAX_RAW_PAIRS = 2 * MAX_PAIRS
_OTHER, _COUNT = "__other", "__count"


@dataclass(frozen=True, slots=True)
class JoinSide:
    """One side of a join: `own` is the number of the trace that keeps it, `other` the number of the other side's
    trace."""

    own: int
    other: int
    own_keys: tuple[str, ...]
    other_keys: tuple[str, ...]


def pairs(changes: pl.DataFrame, held: pl.DataFrame, side: JoinSide) -> Iterator[pl.DataFrame]:
    """Yields the pairs of changes and held rows with equal keys, in parts of at most MAX_PAIRS unless a single row has
    more partners. A pair starts at the later of its two instants and is at the higher of its two layers. All changes of
    a row are in the same part, so pairs of insertions and of retractions cancel out."""
    row = _row(changes)
    if changes.height * held.height <= MAX_PAIRS or not row:
        yield net(_pairs(changes, held, side))
        return
    changes = changes.sort(row, nulls_last=True, maintain_order=True)
    row_of = changes.select(pl.struct(row).rle_id()).to_series().to_numpy()
    most = np.cumsum(_partners(changes, held, side))
    ends = np.flatnonzero(np.diff(row_of, append=-1)) + 1
    begin = 0
    while begin < changes.height:
        room = np.searchsorted(most, (most[begin - 1] if begin else 0) + MAX_PAIRS, side="right")
        end = int(ends[max(np.searchsorted(ends, room, side="right") - 1, np.searchsorted(ends, begin, side="right"))])
        yield net(_pairs(changes[begin:end], held, side))
        begin = end


def refuse_too_many(parts: Sequence[pl.DataFrame], name: str, most: int) -> None:
    """Raises UserError if there are more than `most` changes at one instant in one layer; `name` is the name of the
    recursion. Changes of different instants are not added up, because a step may contain many instants."""
    if sum(part.height for part in parts) <= most:
        return
    places = [place for place in (FROM, LAYER) if place in parts[0].columns]
    at_once = pl.concat([part.select(places) for part in parts]).group_by(places).len()
    if at_once.filter(pl.col("len") > most).height:
        raise UserError(
            f"WITH RECURSIVE {name} derives more than {MAX_PAIRS:,} rows in one iteration at one instant",
            hint="limit the recursion by a condition, or join on a key with fewer rows per value",
        )


def net(changes: pl.DataFrame) -> pl.DataFrame:
    """Returns one change for each row, layer and instant, without changes that add up to zero."""
    return Delta(changes).consolidate().frame


def in_order(changes: pl.DataFrame) -> pl.DataFrame:
    """Returns the changes with their columns in an order that does not depend on the term that computed them."""
    return changes.select(*_row(changes), *RESERVED)


def _row(changes: pl.DataFrame) -> list[str]:
    layer = [LAYER] if LAYER in changes.columns else []
    return [*sorted(set(changes.columns) - {*RESERVED, LAYER}), *layer]


def _partners(changes: pl.DataFrame, held: pl.DataFrame, side: JoinSide) -> np.ndarray:
    """Returns the number of partners of each change."""
    own = list(side.own_keys)
    if not own:
        return np.full(changes.height, held.height)
    counts = held.group_by(side.other_keys).len(_COUNT).rename(dict(zip(side.other_keys, own, strict=True)))
    return equal_join(changes.select(own), counts, own, "left")[_COUNT].fill_null(0).cast(pl.Int64).to_numpy()


def _pairs(changes: pl.DataFrame, held: pl.DataFrame, side: JoinSide) -> pl.DataFrame:
    shared = [name for name in (FROM, WEIGHT, LAYER) if name in held.columns]
    others = held.drop(TO, ORDER).rename({name: _OTHER + name for name in shared})
    both = equal_pairs(changes, others, side.own_keys, side.other_keys)
    layers = [pl.col(name) for name in (LAYER, _OTHER + LAYER) if name in both.columns]
    paired = both.with_columns(
        pl.max_horizontal(FROM, _OTHER + FROM).alias(FROM),
        (pl.col(WEIGHT) * pl.col(_OTHER + WEIGHT)).alias(WEIGHT),
        *([pl.max_horizontal(layers).alias(LAYER)] if layers else []),
    )
    return in_order(paired.drop(_OTHER + name for name in shared))
