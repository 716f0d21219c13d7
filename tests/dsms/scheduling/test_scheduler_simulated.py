"""The scheduler's policies in the simulator: the STREAM paper's table, the laws of the policies, the order of peaks."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.scheduling.inputs import Bursts, Input, poisson
from benchmarks.scheduling.simulate import Setup, simulate
from benchmarks.scheduling_simulated import simulated
from dsms.measurements.progress_chart import PathOperator
from dsms.scheduling.policies import Fifo, Greedy, SteepestChain, WeightedFair
from dsms.scheduling.registry import POLICIES

EVERY = [*POLICIES.values(), SteepestChain(latency_s=6)]

#: Motwani et al., CIDR 2003, section 4: O1 needs a time unit for n tuples and keeps a fifth of them; O2 needs a time
#: unit for n/5 tuples. Here n is 5.
BURST = [Input(at, 5) for at in range(1, 8)]
TWO_OPERATORS = Setup(((PathOperator(0.2, 0.2), PathOperator(1, 1)),), 1)
STRATEGY_1 = [1, 1.2, 2, 2.2, 3, 3.2, 4]
STRATEGY_2 = [1, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2]


@pytest.mark.parametrize(
    ("policy", "table"), [(Fifo(), STRATEGY_1), (Greedy(), STRATEGY_2), (SteepestChain(), STRATEGY_2)], ids=str
)
def test_the_table_of_the_paper(policy, table):
    outcome = simulate(policy, TWO_OPERATORS, BURST)
    assert [outcome.memory_at(time) / 5 for time in range(1, 8)] == table
    assert outcome.peak / 5 == max(table)
    # "After time = 7, queue sizes for both strategies decline until they reach 0 when time = 15."
    after = [outcome.memory_at(time) for time in range(7, 16)]
    assert after == sorted(after, reverse=True)
    assert after[-2] > 0 == after[-1]
    assert outcome.memory[-1] == (15, 0)


def test_fifo_gives_the_first_result_sooner_and_both_finish_together():
    fifo, chain = (simulate(policy, TWO_OPERATORS, BURST) for policy in (Fifo(), SteepestChain()))
    # FIFO finishes one input every two time units. Chain runs O1 from 1 to 8, and then O2.
    assert fifo.latencies_s == (2, 3, 4, 5, 6, 7, 8)
    assert chain.latencies_s == (8, 8, 8, 8, 8, 8, 8)


SIZES = st.fractions(Fraction(1, 4), 4, max_denominator=4)
TIMES = st.fractions(0, 12, max_denominator=4)


@st.composite
def systems(draw):
    """Paths and inputs. Some operators take no time or have selectivity 0."""
    operator = st.builds(PathOperator, st.just(Fraction(0)) | SIZES, st.just(Fraction(0)) | SIZES)
    paths = draw(st.lists(st.lists(operator, min_size=1, max_size=3).map(tuple), min_size=1, max_size=3))
    inputs = draw(st.lists(st.builds(Input, TIMES, SIZES, st.integers(0, len(paths) - 1)), min_size=1, max_size=8))
    return Setup(tuple(paths), draw(SIZES), tuple(draw(st.integers(1, 4)) for _ in paths)), inputs


def work(path, size):
    """The seconds of work that an input causes."""
    seconds = 0
    for operator in path:
        seconds, size = seconds + size * operator.cost, size * operator.selectivity
    return seconds


def busy(setup, inputs):
    """Lindley's recursion: the time when all work is done, and the longest latency if the oldest input is served first.
    A work-conserving processor ends at that time in any order of service."""
    end, longest = 0, 0
    for arrival in sorted(inputs, key=lambda arrival: arrival.at_s):
        end = max(end, arrival.at_s) + work(setup.paths[arrival.path], arrival.size)
        longest = max(longest, end - arrival.at_s)
    return end, longest


@pytest.mark.parametrize("policy", EVERY, ids=str)
@given(system=systems())
def test_every_policy_does_all_the_work_and_never_idles_before(policy, system):
    setup, inputs = system
    outcome = simulate(policy, setup, inputs)
    end, _ = busy(setup, inputs)
    assert outcome.memory[-1] == (end, 0)
    assert sum(grant.seconds for _, grant in outcome.served) == sum(work(setup.paths[i.path], i.size) for i in inputs)
    for arrival, latency in zip(inputs, outcome.latencies_s, strict=True):
        assert work(setup.paths[arrival.path], arrival.size) <= latency <= end - arrival.at_s
    ends = [begin + grant.seconds for begin, grant in outcome.served]
    arrivals = {arrival.at_s for arrival in inputs}
    for before, (begin, _) in zip(ends, outcome.served[1:], strict=False):
        assert begin == before or (begin > before and begin in arrivals and outcome.memory_at(before) == 0)


@given(systems())
def test_a_batch_is_no_longer_than_its_budget(system):
    setup, inputs = system
    for begin, grant in simulate(Fifo(), setup, inputs).served:
        assert grant.seconds <= setup.budget_s, begin


@pytest.mark.parametrize("policy", EVERY, ids=str)
@given(system=systems())
def test_floats_give_the_same_outcome_as_fractions(policy, system):
    exact, inputs = system
    paths = tuple(
        tuple(PathOperator(float(operator.cost), float(operator.selectivity)) for operator in path)
        for path in exact.paths
    )
    outcome = simulate(
        policy,
        Setup(paths, float(exact.budget_s), exact.weights),
        [Input(float(arrival.at_s), float(arrival.size), arrival.path) for arrival in inputs],
    )
    assert outcome.memory[-1] == (pytest.approx(float(busy(exact, inputs)[0])), 0)
    assert len(outcome.latencies_s) == len(inputs)


def unit_path(selectivities):
    """A path whose operators each take one second for the rest of a unit of input."""
    operators, size = [], Fraction(1)
    for selectivity in selectivities:
        operators.append(PathOperator(1 / size, selectivity))
        size *= selectivity
    return tuple(operators)


def unit_systems(most):
    """Tiny systems in which every grant is one second on one input."""
    selectivities = st.fractions(Fraction(1, 8), most, max_denominator=8)
    path = st.lists(selectivities, min_size=1, max_size=3).map(unit_path)
    paths = st.lists(path, min_size=1, max_size=2)
    return paths.flatmap(
        lambda some: st.tuples(
            st.just(Setup(tuple(some), 1)),
            st.lists(
                st.builds(Input, st.integers(0, 5), st.just(1), st.integers(0, len(some) - 1)), min_size=1, max_size=5
            ),
        )
    )


def chart_sizes(path):
    sizes = [Fraction(1)]
    for operator in path[:-1]:
        sizes.append(sizes[-1] * operator.selectivity)
    return [*sizes, 0]


def least_memory(setup, inputs):
    """The least memory at each second over all schedules, including those that idle and those that know future
    inputs."""
    sizes = [chart_sizes(path) for path in setup.paths]
    reached = {tuple((0,) * len(path) for path in setup.paths)}
    for time in range(30):
        coming = [
            sum(arrival.at_s == time and arrival.path == at for arrival in inputs) for at in range(len(setup.paths))
        ]
        reached = {
            tuple((counts[0] + more, *counts[1:]) for counts, more in zip(state, coming, strict=True))
            for state in reached
        }
        yield min(
            sum(count * size[at] for counts, size in zip(state, sizes, strict=True) for at, count in enumerate(counts))
            for state in reached
        )
        reached |= {after for state in reached for after in one_second_later(state)}


def one_second_later(state):
    for path, counts in enumerate(state):
        for at, count in enumerate(counts):
            if count:
                moved = list(counts)
                moved[at] -= 1
                if at + 1 < len(moved):
                    moved[at + 1] += 1
                yield (*state[:path], tuple(moved), *state[path + 1 :])


def heights(path):
    """The sum, over the segments of the envelope, of the greatest height of the chart above it. All times are 1;
    therefore the envelope goes from each corner to the corner of steepest descent."""
    sizes, at, total = chart_sizes(path), 0, 0
    while at < len(path):
        descents = {to: (sizes[at] - sizes[to]) / (to - at) for to in range(at + 1, len(sizes))}
        corner = max(to for to, descent in descents.items() if descent == max(descents.values()))
        total += max(sizes[to] - (sizes[at] - descents[corner] * (to - at)) for to in range(at, corner + 1))
        at = corner
    return total


def regret(policy, system):
    """The greatest difference, over all seconds, between the memory and the least possible memory."""
    setup, inputs = system
    outcome = simulate(policy, setup, inputs)
    return max(outcome.memory_at(time) - least for time, least in enumerate(least_memory(setup, inputs)))


@given(unit_systems(1))
def test_chain_is_within_one_unit_a_path_of_the_clairvoyant_optimum(system):
    setup, _ = system
    assert regret(SteepestChain(), system) <= sum(heights(path) for path in setup.paths) <= len(setup.paths)


@given(unit_systems(3))
def test_chain_is_within_the_heights_above_the_envelope_where_operators_add(system):
    setup, _ = system
    assert regret(SteepestChain(), system) <= sum(heights(path) for path in setup.paths)


@pytest.mark.parametrize("policy", EVERY, ids=str)
@given(system=unit_systems(1))
def test_chain_needs_at_most_one_unit_a_path_more_than_any_policy_at_any_time(policy, system):
    setup, inputs = system
    chain, other = simulate(SteepestChain(), setup, inputs), simulate(policy, setup, inputs)
    seconds = range(int(chain.memory[-1][0]) + 1)
    assert all(chain.memory_at(time) <= other.memory_at(time) + len(setup.paths) for time in seconds)


def test_greedy_and_fifo_are_not_within_one_unit_a_path():
    """Greedy does not serve an operator that keeps all of its input but leads to one that keeps nothing. FIFO follows
    each input along the flat end of its path."""
    opening, even = unit_path([1, 1]), unit_path([Fraction(3, 4), Fraction(2, 3), Fraction(1, 2), 1])
    crossing = (Setup((opening, even), 1), [Input(0, 1, path) for path in (0, 1) for _ in range(5)])
    assert regret(SteepestChain(), crossing) <= 2 < regret(Greedy(), crossing)
    flat = (Setup((unit_path([Fraction(1, 100), 1, 1]),), 1), [Input(0, 1) for _ in range(5)])
    assert regret(SteepestChain(), flat) <= 1 < regret(Fifo(), flat)


@given(unit_systems(1))
def test_the_bound_on_latency_holds_wherever_fifo_keeps_it(system):
    setup, inputs = system
    _, longest = busy(setup, inputs)
    bounded = simulate(SteepestChain(latency_s=longest), setup, inputs)
    assert max(bounded.latencies_s) <= longest


@given(systems())
def test_with_longer_batches_the_bound_holds_to_within_a_batch_a_queue(system):
    setup, inputs = system
    _, longest = busy(setup, inputs)
    bounded = simulate(SteepestChain(latency_s=longest), setup, inputs)
    slack = setup.budget_s * sum(len(path) for path in setup.paths)
    assert max(bounded.latencies_s) <= longest + slack


@given(systems())
def test_a_bound_that_is_never_reached_changes_nothing_and_one_of_no_time_is_fifo(system):
    setup, inputs = system
    assert simulate(SteepestChain(10**6), setup, inputs) == simulate(SteepestChain(), setup, inputs)
    assert simulate(SteepestChain(Fraction(1, 10**6)), setup, inputs).memory == simulate(Fifo(), setup, inputs).memory


def test_the_bound_costs_memory_only_as_it_gets_short():
    inputs = [Input(at, 5) for at in range(1, 40)]
    peaks = [simulate(SteepestChain(bound), TWO_OPERATORS, inputs).peak for bound in (1000, 60, 45, 40)]
    assert peaks == sorted(peaks)
    assert peaks[0] == simulate(SteepestChain(), TWO_OPERATORS, inputs).peak < peaks[-1]


def test_shares_of_service_converge_to_the_weights():
    setup = Setup((unit_path([1, 1]),) * 3, 1, (1, 2, 5))
    inputs = [Input(0, 1, path) for path in range(3) for _ in range(400)]
    outcome = simulate(WeightedFair(), setup, inputs)
    for until in (40, 160, 640):
        received = [
            sum(begin < until and grant.ready.key[0] == path for begin, grant in outcome.served) for path in range(3)
        ]
        assert received == pytest.approx([until / 8, until / 4, until * 5 / 8], abs=2)


def test_inputs_are_a_function_of_the_seed():
    bursts = Bursts(rate=10, on_s=20, off_s=30)
    assert bursts.inputs(7, 1000) == bursts.inputs(7, 1000) != bursts.inputs(8, 1000)
    assert poisson(7, 2, 100) == poisson(7, 2, 100) != poisson(8, 2, 100)
    for inputs, rate in ((bursts.inputs(7, 200_000), 4), (poisson(7, 4, 20_000), 4)):
        times = [arrival.at_s for arrival in inputs]
        assert times == sorted(times)
        assert len(times) / max(times) == pytest.approx(rate, rel=0.05)


def test_bursts_are_regular_while_on_and_silent_while_off():
    gaps = [round(other.at_s - arrival.at_s, 9) for arrival, other in pairwise(Bursts(10, 20, 30).inputs(3, 50_000))]
    silent = [gap for gap in gaps if gap != 0.1]
    assert len(silent) < len(gaps) / 100
    assert sum(silent) / len(silent) == pytest.approx(30, rel=0.15)


@pytest.mark.parametrize("seed", range(3))
def test_peaks_under_bursts_are_in_the_order_of_the_paper(seed):
    peaks = {name: outcome.peak for name, outcome in simulated(seed, 220).items()}
    assert peaks["chain"] <= peaks["greedy"] <= peaks["round_robin"] <= peaks["fifo"]
    assert peaks["chain"] < 0.6 * peaks["fifo"]
