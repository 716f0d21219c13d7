"""A stand-in for the decision how much input queries keep. Epochs take no virtual time, so no load is ever measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from connectors.simulation.scheduler import Scheduler
from dsms.shedding.rates import STEP, Demand, Load, SheddingDecision

#: The rates that are drawn, and how often a query gets another one after an epoch.
_RATES, _CHANGES = (1.0, 1.0, 0.75, 0.5, 0.25, STEP), 0.2

Decide = Callable[[Sequence[Demand], Load, bool], SheddingDecision]


def overloaded(scheduler: Scheduler) -> Decide:
    """Decides after each epoch as under a load that changes at random: each query that allows errors keeps any
    fraction of its input. Which results follow does not depend on the reasons for a rate, but on the log of rates."""

    chance, rates = scheduler.random, dict[str, float]()

    def decide(demands: Sequence[Demand], load: Load, shedding: bool = False) -> SheddingDecision:
        for demand in demands:
            if chance.random() < _CHANGES:
                rates[demand.query] = chance.choice(_RATES)
        return SheddingDecision({demand.query: rates.get(demand.query, 1.0) for demand in demands})

    return decide
