"""FromOffsets: a partition with a first offset keeps its records from there on, any other one keeps all."""

from __future__ import annotations

import polars as pl

from operators.core.delta import ORDER, ORDER_SHIFT, SOURCE_SHIFT, Delta
from operators.core.operator import Move
from operators.streams.from_offsets import FromOffsets


def test_each_partition_has_its_own_first_offset() -> None:
    places = [(0, 0), (0, 5), (1, 5), (2, 0), (2, 9)]
    orders = [(4 << SOURCE_SHIFT) + (partition << ORDER_SHIFT) + offset for partition, offset in places]
    changes = Delta.of([("+", {"a": at}, at) for at in range(len(places))])
    delta = Delta(changes.frame.with_columns(pl.Series(ORDER, orders)))
    kept = FromOffsets(((0, 5), (1, 6))).step(delta, (), Move(0, 9)).delta
    assert kept.frame["a"].to_list() == [1, 3, 4]
