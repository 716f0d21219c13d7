"""Settings that are decided while an operator runs, and hold from a place of a log on: the rates of a Shed, the sizes
of a window. What was decided is logged before it counts, so results are a function of the logs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, NamedTuple

import msgspec
import numpy as np

from operators.core.decoding import Int64, Natural
from operators.core.delta import BEGINNING, ORDER_SHIFT, SOURCE_SHIFT

#: The bits of an order that are the place of the record: partition and offset.
_PLACE = (1 << SOURCE_SHIFT) - 1
#: An offset of a partition, and the fraction that holds from there on.
Setting = tuple[int, float]
#: Fractions by place (partition and offset as a single number), ascending.
Settings = tuple[tuple[int, float], ...]


class Decision(NamedTuple):
    """A setting as it is logged, with what was known of instants when it was: no record of the partition from `offset`
    on has an instant below `frontier`, unless it is late, and none before it has one above `high` (None: not known).
    """

    offset: Natural
    fraction: Annotated[float, msgspec.Meta(ge=0, le=1)]
    frontier: Int64 = BEGINNING
    high: Int64 | None = None

    @property
    def setting(self) -> Setting:
        """Without the instants."""
        return self.offset, self.fraction


def settings_of(partition: int, settings: Iterable[Setting]) -> Settings:
    """The settings of a partition by place. Before the first one the fraction is 1.

    >>> settings_of(1, [(5, 0.5)]) == ((1 << 45, 1.0), ((1 << 45) + 5, 0.5))
    True
    """
    first = partition << ORDER_SHIFT
    return ((first, 1.0), *((first + offset, fraction) for offset, fraction in settings))


def settings_at(settings: Settings, orders: np.ndarray) -> np.ndarray:
    """The fraction that holds for each order; 1 where nothing was set.

    >>> settings_at(((0, 1.0), (5, 0.25)), np.array([4, 5, 9])).tolist()
    [1.0, 0.25, 0.25]
    """
    if not settings:
        return np.ones(len(orders))
    known, fractions = (np.array(column) for column in zip(*settings, strict=True))
    at = np.searchsorted(known, orders & _PLACE, side="right") - 1
    found: np.ndarray = np.where(at >= 0, fractions[np.maximum(at, 0)], 1.0)
    return found
