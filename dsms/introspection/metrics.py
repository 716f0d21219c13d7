"""Describes the metrics of operators for sampling, the stream `dsms_operators`, SHOW and the documentation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from dsms.measurements.work import VertexMetrics


class Sample(NamedTuple):
    """The measurements of a vertex at `now` (a time of their clock), and the rates derived from them."""

    measured: VertexMetrics
    now: float
    rows_in_per_second: float
    rows_out_per_second: float
    load: float

    @classmethod
    def of(cls, measured: VertexMetrics, now: float) -> Sample:
        """The sample of a vertex."""
        return cls(measured, now, *measured.rates(now))


def number(value: Any) -> Any:
    """The value of a metric as one number. Values by input are summed; any other value is unchanged.

    >>> number((3, 4)), number(0.5), number(None)
    (7, 0.5, None)
    """
    return sum(value) if isinstance(value, tuple) else value


def rounded(value: float | None) -> float | None:
    """A number rounded to four significant digits.

    >>> rounded(1234567.0), rounded(0.0123456), rounded(None)
    (1235000.0, 0.01235, None)
    """
    return None if value is None else float(f"{value:.4g}")


def micros(seconds: float | None) -> float | None:
    """Seconds as microseconds, rounded to four significant digits."""
    return None if seconds is None else rounded(seconds * 1e6)


def cell(value: Any) -> object:
    """A value of a metric as SHOW prints it: fractions are rounded, counts are exact.

    >>> cell((3, 4)), cell(1234567), cell(0.0123456)
    (7, 1234567, 0.01235)
    """
    return rounded(value) if isinstance(value, float) else number(value)


@dataclass(frozen=True)
class Column:
    """A column of SHOW OPERATORS: its heading, its rank among the columns of metrics, and how a value is printed."""

    heading: str
    rank: int
    cell: Callable[[Any], object] = cell


@dataclass(frozen=True)
class Metric:
    """A metric: how its value is computed from a sample, its unit, and its meaning in one phrase for the documentation.
    It is in SHOW OPERATORS if it has a `column`, and in the stream `dsms_operators` if `streamed`.
    """

    value: Callable[[Sample], Any]
    unit: str
    meaning: str
    column: Column | None = None
    streamed: bool = False
