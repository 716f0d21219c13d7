"""Preferred values: rates of shedding that differ between some listed values of a column and all others."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec
import numpy as np

from operators.core.decoding import Natural

_Rate = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Preferred(NamedTuple):
    """A rate as a whole (`fraction`), and the rates for records whose value is `listed` or among the `others`.
    `values` are the listed values, by their CRC-32."""

    fraction: _Rate
    listed: _Rate
    others: _Rate
    values: tuple[Natural, ...]

    def rates(self, checksums: np.ndarray) -> np.ndarray:
        """The rate for each value, given its CRC-32.

        >>> Preferred(0.5, 1.0, 0.25, (7, 9)).rates(np.array([7, 8, 9])).tolist()
        [1.0, 0.25, 1.0]
        """
        return np.where(np.isin(checksums, self.values), self.listed, self.others)


#: A fraction that is the same for all values, or not.
Fraction = float | Preferred


def as_whole(fraction: Fraction) -> float:
    """The fraction over all values.

    >>> as_whole(0.25), as_whole(Preferred(0.5, 1.0, 0.25, (7,)))
    (0.25, 0.5)
    """
    return fraction.fraction if isinstance(fraction, Preferred) else fraction
