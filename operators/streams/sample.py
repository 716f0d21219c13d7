"""Sample: CQL's `Sample(p)`, p percent of the rows (STREAM section 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from operators.core.delta import ORDER, Delta
from operators.core.operator import Move, Step
from operators.kernels.random_fraction import key_checksums, random_fractions
from operators.state.trace import Trace


@dataclass(frozen=True, slots=True)
class Sample:
    """Linear and stateless: the elements whose pseudo-random number in [0, 1) is below `percent` / 100.

    Without `keys` the number is a function of the record that caused the element (source, partition, offset), so the
    rows caused by a record are sampled together; the input is a stream. With `keys` it is a function of the row's key,
    so a row and the row that replaces it are sampled together. Samples with different `number`s are independent.

    >>> rows = Delta.of([("+", {"a": a}, a) for a in range(1000)])
    >>> len(Sample(10.0).step(rows, (), Move(0, 9)).delta)
    101
    """

    operator_version: ClassVar[int] = 1
    percent: float
    keys: tuple[str, ...] = ()
    number: int = 0

    def traces(self) -> tuple[Trace, ...]:
        """(): the operator is stateless."""
        return ()

    def reads(self, wanted: frozenset[str]) -> frozenset[str]:
        """The wanted columns and the key columns."""
        return wanted | set(self.keys)

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The elements that are in the sample."""
        frame = delta.frame
        numbers = key_checksums(frame, self.keys) if self.keys else frame[ORDER].to_numpy()
        return Step(Delta(frame.filter(pl.Series(random_fractions(numbers, self.number) < self.percent / 100))))
