"""The decision about shedding rates, compared with a search over a grid and with its guarantees."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsms.shedding.observed_input import ObservedInput
from dsms.shedding.rates import STEP, Demand, Load, cost_per_record, decide, fair_rates
from operators.streams.shed import ShedStatistics, Spread

DEMAND = st.builds(
    Demand,
    query=st.just(""),
    cost=st.floats(0.001, 1.0),
    spread=st.none() | st.floats(1e-6, 1e-2),
    max_error=st.floats(0.01, 0.3),
    weight=st.sampled_from([0.5, 1.0, 2.0, 8.0]),
    deadline_s=st.just(2.0),
)
DEMANDS = st.lists(DEMAND, min_size=1, max_size=3).map(
    lambda listed: [replace(demand, query=f"q{at}") for at, demand in enumerate(listed)]
)
GRID = [at / 40 for at in range(1, 41)]


def worst(demands, chosen) -> float:
    return max(demand.weight * demand.error(chosen[demand.query]) for demand in demands)


@given(DEMANDS, st.floats(0.05, 1.2))
def test_no_point_of_a_grid_within_bounds_and_budget_has_a_smaller_largest_weighted_error(demands, share) -> None:
    budget = share * sum(demand.cost for demand in demands)
    chosen = fair_rates(demands, budget)
    assert all(demand.error(chosen[demand.query]) <= demand.max_error * (1 + 1e-9) for demand in demands)
    fits = cost_per_record(demands, chosen) <= budget * (1 + 1e-9)
    names = [demand.query for demand in demands]
    for point in itertools.product(GRID, repeat=len(demands)):
        other = dict(zip(names, point, strict=True))
        within = all(demand.error(other[demand.query]) <= demand.max_error for demand in demands)
        if within and cost_per_record(demands, other) <= budget:
            assert fits
            assert worst(demands, chosen) <= worst(demands, other) * (1 + 1e-6) + 1e-12


@given(DEMANDS, st.floats(0.05, 0.95))
def test_errors_are_equal_where_no_bound_holds_them(demands, share) -> None:
    chosen = fair_rates(demands, share * sum(demand.cost for demand in demands))
    free = [demand for demand in demands if demand.least * (1 + 1e-6) < chosen[demand.query]]
    errors = [demand.weight * demand.error(chosen[demand.query]) for demand in free]
    assert not errors or max(errors) == pytest.approx(min(errors), rel=1e-4)


@given(DEMANDS, st.floats(0, 5_000), st.floats(0, 2_000), st.floats(0, 0.01))
def test_nothing_is_shed_without_need_and_no_query_beyond_its_bound(demands, unread, arrivals, base) -> None:
    load = Load(unread, arrivals, base)
    decision = decide(demands, load)
    whole = base + sum(demand.cost for demand in demands)
    if unread * whole <= 0.4 and arrivals * whole <= 1:
        assert set(decision.rates.values()) == {1.0}
    for demand in demands:
        assert demand.error(decision.rates[demand.query]) <= demand.max_error * (1 + 1e-9)
        assert decision.rates[demand.query] % STEP == 0
    if any(rate < 1 for rate in decision.rates.values()) and not decision.late:
        slack = STEP * sum(demand.cost for demand in demands)
        cost = base + cost_per_record(demands, decision.rates)
        assert (cost - slack) * (unread + arrivals) <= 1.0  # half the deadline


def test_the_lag_comes_back_below_the_deadline_at_three_times_the_capacity_and_rates_return() -> None:
    """In steps of one second: for a minute 3000 records a second arrive, of which 1000 can be processed; then 300
    arrive."""
    demands = [Demand("a", 0.0005, 1e-5, 0.2, 1.0, 2.0), Demand("b", 0.0004, 1e-5, 0.2, 4.0, 2.0)]
    base, unread, shedding, lags, seen = 0.0001, 0.0, False, [], []
    for second in range(120):
        arrivals = 3000.0 if second < 60 else 300.0
        decision = decide(demands, Load(unread, arrivals, base), shedding)
        shedding = any(rate < 1 for rate in decision.rates.values())
        record_s = base + cost_per_record(demands, decision.rates)
        unread = max(unread + arrivals - 1 / record_s, 0.0)
        lags.append(unread * record_s)
        seen.append(decision.rates)
        assert not decision.late
    assert max(lags) <= 2.0
    assert seen[30]["b"] > seen[30]["a"]
    assert seen[-1] == {"a": 1.0, "b": 1.0}


def test_queries_that_miss_their_deadline_are_late_and_not_shed_beyond_the_bound() -> None:
    demand = Demand("a", 0.01, 1e-3, 0.02, deadline_s=1.0)
    decision = decide([demand], Load(unread=10_000, arrivals=1_000))
    assert decision.late == {"a"}
    assert decision.rates["a"] == math.ceil(1.05 * demand.least / STEP - 1e-9) * STEP


def test_overload_does_not_shed_a_cheap_query_of_great_weight_to_its_bound() -> None:
    dear, light = Demand("dear", 0.01, 1e-3, 0.1), Demand("light", 1e-4, 1e-3, 0.1, weight=20.0)
    load = Load(unread=10_000, arrivals=1_000, base=0.001)
    decision = decide([dear, light], load)
    assert decision.late == {"dear", "light"}
    least = load.base + cost_per_record([dear, light], {"dear": dear.least, "light": light.least})
    allowed = 1.05 * least + STEP * (dear.cost + light.cost)
    assert load.base + cost_per_record([dear, light], decision.rates) <= allowed
    assert decision.rates["light"] > 4 * light.least


def test_the_spread_is_that_of_the_smallest_group_of_a_window() -> None:
    """1000 rows in 100 instants; a tenth of them are in one group, with the values 1 and 3: n Σx² / (Σx)² is 5/4."""
    groups = {1: Spread(900.0, ((900.0, 900.0),)), 2: Spread(100.0, ((200.0, 500.0),))}
    seen = ObservedInput().after(0.0, 0, ShedStatistics(1000, 1000, 0, 99, groups))
    assert seen.spread(window=200) == pytest.approx(2.33**2 * 1.25 / 200)
    assert seen.spread(window=None) == pytest.approx(2.33**2 * 1.25 / 100)
    two = seen.after(0.0, 1, ShedStatistics(1000, 500, 0, 99, groups))
    assert two.spread(window=200) == pytest.approx(2.33**2 * 1.25 / 400)
    assert (two.dropped, two.rate) == (500, 0.75)


def test_a_query_that_is_not_estimated_keeps_its_part_and_shares_the_load_by_weight() -> None:
    """The errors are 1 - p of the joined query, and sqrt(C (1 - p) / p) of the estimated one."""
    pairs, total = Demand("pairs", 0.01, None, 0.5), Demand("total", 0.01, 1e-3, 0.1)
    cost = 0.9 * (pairs.cost + total.cost)
    rates = fair_rates([pairs, total], cost)
    assert 1 - rates["pairs"] == pytest.approx(total.error(rates["total"]))
    heavy = fair_rates([replace(pairs, weight=4.0), total], cost)
    assert 4 * (1 - heavy["pairs"]) == pytest.approx(total.error(heavy["total"]))
    assert heavy["pairs"] > rates["pairs"] and heavy["total"] < rates["total"]
    decision = decide([pairs, total], Load(unread=100_000, arrivals=1_000))
    assert decision.late == {"pairs", "total"}
    assert decision.rates["pairs"] >= 0.5


@pytest.mark.parametrize(("max_loss", "base"), [(0.05, 0.0), (0.0625, 0.001), (0.5, 1.0), (0.5, 100.0)])
@pytest.mark.parametrize("others", [[], [Demand("total", 0.01, 1e-3, 0.1)]])
def test_a_query_that_is_late_leaves_out_all_that_it_may(max_loss: float, base: float, others: list[Demand]) -> None:
    """However small its loss or its part of the cost is; also beside estimates."""
    decision = decide([Demand("pairs", 0.01, None, max_loss), *others], Load(100_000, 1_000, base))
    assert "pairs" in decision.late
    assert decision.rates["pairs"] == math.ceil((1 - max_loss) * 64 - 1e-6) / 64
