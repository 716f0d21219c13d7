"""Send is the operator at the end of a part of a query. It determines the shard that receives each element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from connectors.formats.record_formats import FORMATS
from connectors.kafka.records.key_partitions import key_partitions
from dsms.planner.physical.parts.links import Shard
from operators.core.delta import RESERVED, Delta, partition_of, polars_schema
from operators.core.operator import Move, Step
from operators.core.run import key_hash
from operators.state.trace import Trace
from operators.streams.reorder import Reorder

#: The column with the number of the shard that receives an element.
RECEIVER = "__receiver"
#: An odd factor. Multiplication by it spreads hashes that have equal remainders, as those of the elements of one
#: target.
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class Division(Protocol):
    """A way to divide elements among the shards of a query."""

    def receivers(self, frame: pl.DataFrame, own: Shard) -> NDArray[np.int64]:
        """The number of the shard that receives each element; `own` is the shard that sends them."""
        ...


@dataclass(frozen=True)
class ByKeys:
    """Elements that are equal in `keys` go to the same shard; without keys all go to shard 0."""

    keys: tuple[str, ...]

    def receivers(self, frame: pl.DataFrame, own: Shard) -> NDArray[np.int64]:
        """Determined by a hash that is independent of the hash that chooses the target within a shard."""
        if not self.keys:
            return np.zeros(frame.height, np.int64)
        spread = key_hash(frame, self.keys).to_numpy() * _SPREAD
        return ((spread >> np.uint64(32)) % np.uint64(own.of)).astype(np.int64)


@dataclass(frozen=True)
class ToOwn:
    """Elements stay in the shard that sends them."""

    def receivers(self, frame: pl.DataFrame, own: Shard) -> NDArray[np.int64]:
        """The sending shard itself."""
        return np.full(frame.height, own.number, np.int64)


@dataclass(frozen=True)
class ByResultKey:
    """Elements go to the shard that publishes the result partition of their key, so each partition has one writer."""

    keys: tuple[str, ...]
    schema: pa.Schema
    format: str
    schema_id: int | None
    partitions: int

    def receivers(self, frame: pl.DataFrame, own: Shard) -> NDArray[np.int64]:
        """Determined by the encoded key, by which the result topic is partitioned."""
        encoder = FORMATS[self.format].encoder_of(self.schema, self.schema_id)
        places = key_partitions(encoder.encode(frame.select(self.keys)), self.partitions)
        return places.astype(np.int64) % own.of


@dataclass(frozen=True)
class ByResultOrder:
    """Like `ByResultKey`, for results without a key: their partition is that of the record that caused them."""

    partitions: int

    def receivers(self, frame: pl.DataFrame, own: Shard) -> NDArray[np.int64]:
        """Determined by the source partition, which the order of an element contains."""
        places = frame.select(partition_of() % self.partitions % own.of).to_series()
        return places.to_numpy().astype(np.int64)


@dataclass(frozen=True)
class Send:
    """Outputs the elements that a move of the frontier releases, with the shard that receives each. If `division` is
    None, every element goes to every shard. The sent elements are a function of the logs, because all elements of an
    instant are sent at once.
    """

    operator_version: ClassVar[int] = 1
    division: Division | None
    own: Shard

    def traces(self) -> tuple[Trace, ...]:
        """The elements at or above the frontier."""
        return Reorder().traces()

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The elements of the move, with their receivers."""
        released = Reorder().step(delta, traces, move)
        frame = released.delta.frame
        if self.division is None:
            sent = pl.concat([_to(frame, pl.lit(share, pl.Int64)) for share in range(self.own.of)])
        else:
            sent = _to(frame, pl.Series(self.division.receivers(frame, self.own), dtype=pl.Int64))
        return Step(Delta(sent), released.traces)


def _to(frame: pl.DataFrame, receivers: pl.Expr | pl.Series) -> pl.DataFrame:
    return frame.with_columns(receivers.alias(RECEIVER)).select(pl.exclude(RESERVED), *RESERVED)


@dataclass(frozen=True)
class Silent:
    """An operator without output, which replaces in other shards an operator that only shard 0 runs."""

    operator_version: ClassVar[int] = 1
    schema: pa.Schema

    def traces(self) -> tuple[Trace, ...]:
        """Empty: the operator is stateless."""
        return ()

    def step(self, *_: object) -> Step:
        """No elements, whatever the inputs are."""
        return Step(Delta.empty(polars_schema(self.schema)))
