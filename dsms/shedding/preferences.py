"""Decides which values a query with a preference keeps first when its input is shed.

Source: "Scalability via Summaries: Stream Query Processing Using Promising Tuples" (Ali, Aref, ElTabakh). With DESC,
values that occur often promise the most results; with ASC, rare ones do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from dsms.shedding.rates import STEP
from operators.streams.preferred_values import Preferred

#: The most values in a list, and thus in a record of the log of rates: about 3 kB.
MOST_LISTED = 256
#: A list stays while the part that it keeps differs from the rate by no more than this.
_NEGLIGIBLE = 2 * STEP


def preferred(rate: float, direction: Literal["asc", "desc"], counts: Mapping[int, float], rows: float) -> Preferred:
    """The rates for the most frequent values and for all others. Of all `rows`, a part `rate` is kept.

    With DESC the most frequent values are kept as wholes while they fit, and a part of the others. With ASC a part of
    the most frequent values is left out, and the others are kept as wholes; if the list is too short for that, all of
    its values are left out, and a part of the others.

    >>> counts = {1: 50.0, 2: 25.0, 3: 10.0}
    >>> preferred(0.8125, "desc", counts, 100)
    Preferred(fraction=0.8125, listed=1.0, others=0.25, values=(1, 2))
    >>> preferred(0.75, "asc", counts, 100)
    Preferred(fraction=0.75, listed=0.5, others=1.0, values=(1,))
    """
    wanted = rate if direction == "desc" else 1 - rate
    heaviest = list(_heaviest(counts, rows))
    chosen = _up_to(wanted, heaviest) if direction == "desc" else _at_least(wanted, heaviest)
    values, part = tuple(sorted(value for value, _ in chosen)), min(sum(part for _, part in chosen), 1.0)
    if not values:
        return Preferred(rate, rate, rate, ())
    listed, others = _divided(wanted, part)
    if direction == "asc":
        listed, others = 1 - listed, 1 - others
    return Preferred(rate, listed, others, values)


def still_right(before: Preferred, counts: Mapping[int, float], rows: float) -> bool:
    """Whether a list still keeps the part for which it was chosen."""
    part = min(sum(counts.get(value, 0.0) for value in before.values) / rows, 1.0) if rows else 0.0
    return abs(part * before.listed + (1 - part) * before.others - before.fraction) <= _NEGLIGIBLE


def _heaviest(counts: Mapping[int, float], rows: float) -> Iterator[tuple[int, float]]:
    """The most frequent values, each with its part of the rows."""
    for value in sorted(counts, key=lambda value: (-counts[value], value))[:MOST_LISTED]:
        yield value, counts[value] / rows


def _up_to(wanted: float, heaviest: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """As many values as fit into a part of the rows, but at least one."""
    chosen, total = heaviest[:1], sum(part for _, part in heaviest[:1])
    for value, part in heaviest[1:]:
        if total + part > wanted:
            break
        chosen, total = [*chosen, (value, part)], total + part
    return chosen


def _at_least(wanted: float, heaviest: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """As few values as make up a part of the rows; all if they do not."""
    chosen: list[tuple[int, float]] = []
    for value, part in heaviest:
        if sum(part for _, part in chosen) >= wanted:
            break
        chosen.append((value, part))
    return chosen


def _divided(wanted: float, part: float) -> tuple[float, float]:
    """The fractions of the listed values, which are `part` of all rows, and of the others, that together are `wanted`
    of all rows; those of the listed values first."""
    if part >= wanted:
        return wanted / part, 0.0
    return 1.0, (wanted - part) / (1 - part)
