"""Decides which fraction of its input each query keeps. Under the load, these rates minimise the largest weighted
error.

The method is that of "Load Shedding for Aggregation Queries over Data Streams" (Babcock, Datar, Motwani, ICDE 2004). If
an aggregate keeps its input with probability p, the square of its relative error is C (1 - p) / p, where C depends on
the number of rows and their spread. A query that is not estimated has the error 1 - p, the part of its input that is
left out. The largest weighted error is minimal when all weighted errors are equal, except for queries that have reached
their bound on the error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

#: Rates are positive multiples of this, so a query never loses all of its input.
STEP = 1 / 64
#: The part of the time that is planned for work; the rest is a reserve.
_USED = 0.85
#: If the bounds on the error do not fit the budget, the cost of the chosen rates is at most this multiple of the least.
#: Only estimates use the difference, because the last of their cost is saved by large errors.
_NEARLY = 1.05
_HALVINGS = 60


@dataclass(frozen=True)
class Demand:
    """A query whose input may be shed: `cost` is its seconds per record without shedding, `spread` the C above, or None
    if its error is the part that is left out.

    >>> demand = Demand("q", cost=1.0, spread=0.0004, max_error=0.02)
    >>> demand.rate_for(0.02), demand.error(0.5)
    (0.5, 0.02)
    >>> part = Demand("q", cost=1.0, spread=None, max_error=0.75)
    >>> part.least, part.error(0.5)
    (0.25, 0.5)
    """

    query: str
    cost: float
    spread: float | None
    max_error: float
    weight: float = 1.0
    deadline_s: float = 5.0

    def error(self, rate: float) -> float:
        """The relative error at a rate, at the confidence level of `spread`."""
        if self.spread is None:
            return 1 - rate
        return math.sqrt(self.spread * (1 - rate) / rate) if rate < 1 else 0.0

    def rate_for(self, error: float) -> float:
        """The least rate whose relative error is at most `error`."""
        if self.spread is None:
            return max(1 - error, STEP)
        if math.isinf(self.spread) or not error:
            return 1.0
        return max(self.spread / (self.spread + error * error), STEP)

    @property
    def least(self) -> float:
        """The least rate that keeps the query's bound on the error."""
        return self.rate_for(self.max_error)


@dataclass(frozen=True)
class Load:
    """The load: the number of waiting records, the number that arrive a second, and the seconds that each record costs
    (`base`) besides the queries that may be shed.
    """

    unread: float
    arrivals: float
    base: float = 0.0

    def lag(self, cost: float, horizon_s: float) -> float:
        """The lag in seconds after `horizon_s`, if a record costs `cost` seconds.

        >>> Load(unread=100, arrivals=30).lag(0.05, 10.0)
        10.0
        """
        return max(self.unread * cost + (self.arrivals * cost - 1) * horizon_s, 0.0)

    def budget(self, horizon_s: float) -> float:
        """The most seconds that a record may cost if all waiting and arriving records are to be processed within
        `horizon_s`.
        """
        return _USED * horizon_s / max(self.unread + self.arrivals * horizon_s, 1e-9)


@dataclass(frozen=True)
class SheddingDecision:
    """The rates by query, and the queries that will be late because their bounds do not allow enough shedding."""

    rates: Mapping[str, float]
    late: frozenset[str] = frozenset()


def decide(demands: Sequence[Demand], load: Load, shedding: bool = False) -> SheddingDecision:
    """The rates from now on. All are 1 if no query is about to miss its deadline; but once shedding has begun, it
    continues until the lag is small.

    >>> queries = [Demand("a", 0.01, 1e-4, 0.1), Demand("b", 0.01, 1e-4, 0.1, weight=4.0)]
    >>> decide(queries, Load(unread=0, arrivals=40)).rates
    {'a': 1.0, 'b': 1.0}
    >>> decide(queries, Load(unread=1000, arrivals=100)).rates["a"] < decide(queries, Load(1000, 100)).rates["b"]
    True
    """
    full_cost = load.base + sum(demand.cost for demand in demands)
    lag_limit = 0.25 if shedding else 0.5
    if not demands or all(
        load.lag(full_cost, demand.deadline_s) <= lag_limit * demand.deadline_s for demand in demands
    ):
        return SheddingDecision({demand.query: 1.0 for demand in demands})
    horizon = min(demand.deadline_s for demand in demands) / 2
    chosen = _nearly_within(demands, load.budget(horizon), load.base)
    late = load.base + cost_per_record(demands, chosen) > load.budget(horizon) / _USED
    return SheddingDecision(
        {query: _stepped(rate) for query, rate in chosen.items()}, frozenset(chosen) if late else frozenset()
    )


def _nearly_within(demands: Sequence[Demand], budget: float, base: float) -> dict[str, float]:
    """The fair rates within a budget that includes `base`. If it is less than nearly the least, estimates get what is
    nearly the least instead, and queries that are not estimated nothing of the difference."""
    least = base + cost_per_record(demands, {demand.query: demand.least for demand in demands})
    chosen = fair_rates(demands, max(budget, least) - base)
    estimated = [demand for demand in demands if demand.spread is not None]
    if budget >= _NEARLY * least or not estimated:
        return chosen
    others = cost_per_record([demand for demand in demands if demand.spread is None], chosen)
    return chosen | fair_rates(estimated, _NEARLY * least - base - others)


def fair_rates(demands: Sequence[Demand], budget: float) -> dict[str, float]:
    """The rates that minimise the largest weighted error at a cost within the budget; if no rates fit, the least rates
    that the queries allow.
    """
    if cost_per_record(demands, dict.fromkeys((demand.query for demand in demands), 1.0)) <= budget:
        return {demand.query: 1.0 for demand in demands}
    low, high = 0.0, max(demand.weight * demand.max_error for demand in demands)
    if cost_per_record(demands, _rates_at(demands, high)) > budget:
        return _rates_at(demands, high)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if cost_per_record(demands, _rates_at(demands, middle)) <= budget else (middle, high)
    return _rates_at(demands, high)


def cost_per_record(demands: Iterable[Demand], at: Mapping[str, float]) -> float:
    """The seconds that a record costs at given rates."""
    return sum(demand.cost * at[demand.query] for demand in demands)


def _rates_at(demands: Sequence[Demand], level: float) -> dict[str, float]:
    """The rates at which each weighted error is `level`, or less where the query's own bound is stricter."""
    return {demand.query: max(demand.rate_for(level / demand.weight), demand.least) for demand in demands}


def _stepped(rate: float) -> float:
    return min(math.ceil(rate / STEP - 1e-9) * STEP, 1.0)
