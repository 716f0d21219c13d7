"""Which part of each query's input stays: the least weighted error that the load allows.

After "Load Shedding for Aggregation Queries over Data Streams" (Babcock, Datar, Motwani, ICDE 2004): where an
aggregate's input stays with chance p, the square of its relative error is C (1 - p) / p, with C from the number of rows
and their spread. The largest weighted error is least where all weighted errors are equal, but for queries that have
come to the error that they allow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

#: Rates are multiples of this, and so is the least one: a query that is shed is never silent.
STEP = 1 / 64
#: So much of the time is planned for; the rest is for what was not foreseen.
_USED = 0.85
#: Where the bounds do not allow for the budget, queries go no further than costs this many times the least.
_NEARLY = 1.05
_HALVINGS = 60


@dataclass(frozen=True)
class Demand:
    """A query whose input may be shed: the seconds that a record costs it where all stay, and its C.

    >>> demand = Demand("q", cost=1.0, spread=0.0004, max_error=0.02)
    >>> demand.rate(0.02), demand.error(0.5)
    (0.5, 0.02)
    """

    query: str
    cost: float
    spread: float
    max_error: float
    weight: float = 1.0
    deadline_s: float = 5.0

    def error(self, rate: float) -> float:
        """The relative error, of the confidence that C is for, at a rate."""
        return math.sqrt(self.spread * (1 - rate) / rate) if rate < 1 else 0.0

    def rate(self, error: float) -> float:
        """The least rate at which the relative error is at most this."""
        if math.isinf(self.spread) or not error:
            return 1.0
        return max(self.spread / (self.spread + error * error), STEP)

    @property
    def least(self) -> float:
        """The least rate that the query allows."""
        return self.rate(self.max_error)


@dataclass(frozen=True)
class Load:
    """What is to be done: records that wait, records that come a second, and what each costs besides the queries that
    may be shed."""

    unread: float
    arrivals: float
    base: float = 0.0

    def lag(self, cost: float, horizon_s: float) -> float:
        """For how many seconds the last record will have waited after a time, if each costs so many seconds.

        >>> Load(unread=100, arrivals=30).lag(0.05, 10.0)
        10.0
        """
        return max(self.unread * cost + (self.arrivals * cost - 1) * horizon_s, 0.0)

    def budget(self, horizon_s: float) -> float:
        """The seconds that a record may cost so that all that waits and comes is done in a time."""
        return _USED * horizon_s / max(self.unread + self.arrivals * horizon_s, 1e-9)


@dataclass(frozen=True)
class Decision:
    """The rates by query, and the queries whose bound does not allow for the load: these will be late."""

    rates: Mapping[str, float]
    late: frozenset[str] = frozenset()


def decide(demands: Sequence[Demand], load: Load, shedding: bool = False) -> Decision:
    """The rates from now on: all 1 where no query will be late. One that sheds goes on until the lag is small.

    >>> queries = [Demand("a", 0.01, 1e-4, 0.1), Demand("b", 0.01, 1e-4, 0.1, weight=4.0)]
    >>> decide(queries, Load(unread=0, arrivals=40)).rates
    {'a': 1.0, 'b': 1.0}
    >>> decide(queries, Load(unread=1000, arrivals=100)).rates["a"] < decide(queries, Load(1000, 100)).rates["b"]
    True
    """
    whole = load.base + sum(demand.cost for demand in demands)
    patience = 0.25 if shedding else 0.5
    if not demands or all(load.lag(whole, demand.deadline_s) <= patience * demand.deadline_s for demand in demands):
        return Decision({demand.query: 1.0 for demand in demands})
    horizon = min(demand.deadline_s for demand in demands) / 2
    least = load.base + cost(demands, {demand.query: demand.least for demand in demands})
    chosen = rates(demands, max(load.budget(horizon), _NEARLY * least) - load.base)
    late = load.base + cost(demands, chosen) > load.budget(horizon) / _USED
    return Decision(
        {query: _stepped(rate) for query, rate in chosen.items()}, frozenset(chosen) if late else frozenset()
    )


def rates(demands: Sequence[Demand], budget: float) -> dict[str, float]:
    """The rates with the least largest weighted error whose cost is at most the budget; the least ones that the queries
    allow where none is."""
    if cost(demands, dict.fromkeys((demand.query for demand in demands), 1.0)) <= budget:
        return {demand.query: 1.0 for demand in demands}
    low, high = 0.0, max(demand.weight * demand.max_error for demand in demands)
    if cost(demands, _at(demands, high)) > budget:
        return _at(demands, high)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if cost(demands, _at(demands, middle)) <= budget else (middle, high)
    return _at(demands, high)


def cost(demands: Iterable[Demand], at: Mapping[str, float]) -> float:
    """The seconds that a record costs at some rates."""
    return sum(demand.cost * at[demand.query] for demand in demands)


def _at(demands: Sequence[Demand], level: float) -> dict[str, float]:
    """The rates at which each weighted error is a level, or the query's own bound."""
    return {demand.query: max(demand.rate(level / demand.weight), demand.least) for demand in demands}


def _stepped(rate: float) -> float:
    return min(math.ceil(rate / STEP - 1e-9) * STEP, 1.0)
