"""Replaces the load-shedding decision by random rates. Simulated epochs take no virtual time, so the real one would
never shed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from connectors.simulation.scheduler import Scheduler
from dsms.shedding.rates import STEP, Demand, Load, SheddingDecision

#: The rates that are drawn.
_RATES = (1.0, 1.0, 0.75, 0.5, 0.25, STEP)
#: The probability that a query gets another rate after an epoch.
_CHANGE_PROBABILITY = 0.2

Decide = Callable[[Sequence[Demand], Load, bool], SheddingDecision]


def overloaded(scheduler: Scheduler) -> Decide:
    """Gives each query that allows errors a random rate after each epoch. Results depend on the logged rates only, not
    on why they were chosen."""

    chance, rates = scheduler.random, dict[str, float]()

    def decide(demands: Sequence[Demand], load: Load, shedding: bool = False) -> SheddingDecision:
        for demand in demands:
            if chance.random() < _CHANGE_PROBABILITY:
                rates[demand.query] = chance.choice(_RATES)
        return SheddingDecision({demand.query: rates.get(demand.query, 1.0) for demand in demands})

    return decide
