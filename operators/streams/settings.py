"""Settings of operators (the rates of a Shed, the sizes of a window) that are decided while a query runs. A setting is
valid from an offset of a log on, and is logged before it takes effect, so results are a function of the logs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, NamedTuple

import msgspec
import numpy as np

from operators.core.decoding import Int64, Natural
from operators.core.delta import BEGINNING, ORDER_SHIFT, SOURCE_SHIFT
from operators.streams.preferred_values import Fraction, Preferred, as_whole

#: The bits of an order that are the position of the record: partition and offset.
_PLACE = (1 << SOURCE_SHIFT) - 1
#: An offset of a partition, and the fraction that is valid from there on.
Setting = tuple[int, Fraction]
#: Fractions by position (partition and offset as a single number), ascending.
Settings = tuple[tuple[int, Fraction], ...]


class LoggedSetting(NamedTuple):
    """A setting as it is logged, with bounds of instants that were known at the time. No record of the partition from
    `offset` on has an instant below `frontier`, except late records. No record before `offset` has an instant above
    `high` (None: not known).
    """

    offset: Natural
    fraction: Annotated[float, msgspec.Meta(ge=0, le=1)] | Preferred
    frontier: Int64 = BEGINNING
    high: Int64 | None = None

    @property
    def setting(self) -> Setting:
        """The setting without the instants."""
        return self.offset, self.fraction


def settings_of(partition: int, settings: Iterable[Setting]) -> Settings:
    """Returns the settings of a partition by position. Before the first setting the fraction is 1.

    >>> settings_of(1, [(5, 0.5)]) == ((1 << 45, 1.0), ((1 << 45) + 5, 0.5))
    True
    """
    first = partition << ORDER_SHIFT
    return ((first, 1.0), *((first + offset, fraction) for offset, fraction in settings))


def settings_at(settings: Settings, orders: np.ndarray) -> np.ndarray:
    """Returns the fraction that is valid for each order; 1 where nothing was set.

    >>> settings_at(((0, 1.0), (5, 0.25)), np.array([4, 5, 9])).tolist()
    [1.0, 0.25, 0.25]
    """
    if not settings:
        return np.ones(len(orders))
    fractions = np.array([as_whole(fraction) for _, fraction in settings])
    at = numbers_at(settings, orders)
    found: np.ndarray = np.where(at >= 0, fractions[np.maximum(at, 0)], 1.0)
    return found


def numbers_at(settings: Settings, orders: np.ndarray) -> np.ndarray:
    """Returns the number of the setting that is valid for each order; -1 where nothing was set.

    >>> numbers_at(((3, 1.0), (5, 0.25)), np.array([2, 3, 9])).tolist()
    [-1, 0, 1]
    """
    known = np.array([position for position, _ in settings], np.int64)
    return np.searchsorted(known, orders & _PLACE, side="right") - 1
