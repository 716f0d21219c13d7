"""The scheduler's decisions: charts and envelopes, the order of policies, grants, names of policies."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations_with_replacement, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsms.measurements.progress_chart import (
    Chain,
    PathOperator,
    Point,
    chain_slopes,
    lower_envelope,
    progress_chart,
    remaining,
)
from dsms.scheduling.grants import grants
from dsms.scheduling.policies import Fifo, Greedy, RoundRobin, SteepestChain, WeightedFair
from dsms.scheduling.ready import Moment, Past, ReadyQueue
from dsms.scheduling.registry import POLICIES, parse_policy
from operators.core.errors import InternalError, UserError

NOW = Moment(100, 1)
UNIT = (PathOperator(1, 1),)


def paths(costs: st.SearchStrategy[Fraction], *, least: int = 0) -> st.SearchStrategy[tuple[PathOperator, ...]]:
    operator = st.builds(PathOperator, costs, st.fractions(0, 3, max_denominator=8))
    return st.lists(operator, min_size=least, max_size=7).map(tuple)


SOME_COST = st.fractions(Fraction(1, 8), 4, max_denominator=8)
ANY_COST = st.just(Fraction(0)) | SOME_COST


def test_the_chart_of_a_path_counts_costs_by_what_reaches_the_operator():
    # 100 rows: 100 x 2 s; 20 rows x 5 s; 40 rows x 0.5 s.
    path = (PathOperator(2, Fraction(1, 5)), PathOperator(5, 2), PathOperator(Fraction(1, 2), 7))
    points = [(100 * time, 100 * size) for time, size in progress_chart(path)]
    assert points == [(0, 100), (200, 20), (300, 40), (320, 0)]


def test_a_path_without_operators_has_nothing_to_schedule():
    assert progress_chart(()) == (Point(0, 1),)
    assert lower_envelope(progress_chart(())) == () == chain_slopes(()) == remaining(())


def test_steps_without_duration_have_infinite_slope():
    points = (Point(0, 1), Point(0, 0.25), Point(0, 0.5), Point(2, 0))
    assert lower_envelope(points) == (Chain(range(1), -math.inf), Chain(range(1, 3), -0.125))
    assert lower_envelope((Point(0, 1), Point(0, 0))) == (Chain(range(1), -math.inf),)


def test_equal_slopes_are_one_chain():
    assert lower_envelope((Point(0, 4), Point(1, 3), Point(3, 1), Point(4, 0))) == (Chain(range(3), -1),)


def test_operator_that_adds_rows_is_in_one_chain_with_those_that_remove_them():
    assert lower_envelope((Point(0, 1), Point(1, 3), Point(2, 0.5), Point(4, 0))) == (Chain(range(3), -0.25),)
    assert lower_envelope((Point(0, 1), Point(1, 0.2), Point(2, 0.9), Point(3, 0))) == (
        Chain(range(1), -0.8),
        Chain(range(1, 3), -0.1),
    )


@given(paths(ANY_COST, least=1))
def test_the_envelope_is_the_greatest_convex_curve_below_the_chart(path):
    points = progress_chart(path)
    chains = lower_envelope(points)
    slopes = [chain.slope for chain in chains]
    assert slopes == sorted(set(slopes))
    assert [at for chain in chains for at in chain.operators] == list(range(len(path)))
    ends = [(points[chain.operators.start], points[chain.operators.stop]) for chain in chains]
    for point in points:
        assert lowest(point.time, ends) == lowest(point.time, list(combinations_with_replacement(points, 2)))


def lowest(time, lines):
    """The lowest of the lines at a time. For the lines between all pairs of points, this is the lower convex hull."""
    bounds = []
    for first, other in lines:
        if first.time == other.time == time:
            bounds.append(min(first.size, other.size))
        elif first.time <= time <= other.time:
            bounds.append(first.size + (other.size - first.size) * (time - first.time) / (other.time - first.time))
    return min(bounds)


@given(paths(SOME_COST, least=1))
def test_the_envelope_goes_by_the_steepest_descent_as_the_paper_defines_it(path):
    points = progress_chart(path)
    at, corners = 0, [0]
    while at < len(path):
        slopes = {
            to: (points[to].size - points[at].size) / (points[to].time - points[at].time)
            for to in range(at + 1, len(points))
            if points[to].time > points[at].time
        }
        if not slopes:
            break
        at = max(to for to, slope in slopes.items() if slope == min(slopes.values()))
        corners.append(at)
    if all(point.time < other.time for point, other in pairwise(points)):
        assert [chain.operators.stop for chain in lower_envelope(points)] == corners[1:]


@given(paths(ANY_COST, least=1))
def test_remaining_work_is_that_on_all_that_a_unit_becomes(path):
    for at in range(len(path)):
        size, seconds = 1, 0
        for operator in path[at:]:
            seconds += size * operator.cost
            size *= operator.selectivity
        assert remaining(path)[at] == seconds


@pytest.mark.parametrize(("cost", "selectivity"), [(-1, 1), (1, -1), (math.nan, 1), (1, math.nan), (math.inf, 1)])
def test_impossible_costs_and_selectivities_are_refused(cost, selectivity):
    with pytest.raises(InternalError):
        PathOperator(cost, selectivity)


#: The first operator of this path frees 0.1 a second, but leads to the second one, which frees 0.8.
OPENING = (PathOperator(1, 0.9), PathOperator(1 / 0.9, 1 / 9), PathOperator(100, 1))
#: This path frees 0.25 a second.
EVEN = (PathOperator(4, 1),)


def keys(policy, ready, past=None, moment=NOW):
    return [queue.key[0] for queue in policy.order(ready, past or Past(), moment)]


def test_greedy_considers_one_operator_and_chain_the_following_ones():
    ready = [
        ReadyQueue(("opening",), OPENING, 0, 1, 2),
        ReadyQueue(("even",), EVEN, 0, 1, 1),
        ReadyQueue(("end",), OPENING, 2, 1, 0),
    ]
    assert keys(Greedy(), ready) == ["even", "opening", "end"]
    assert keys(SteepestChain(), ready) == ["opening", "even", "end"]
    assert keys(Fifo(), ready) == ["end", "even", "opening"]


@pytest.mark.parametrize("policy", [Fifo(), Greedy(), SteepestChain()], ids=str)
def test_ties_go_to_the_oldest_and_then_to_the_queue_nearest_to_the_end(policy):
    path = (PathOperator(1, 0.5), PathOperator(1, 0.5), PathOperator(1, 1))
    flat = (PathOperator(1, Fraction(2, 3)), PathOperator(Fraction(3, 2), Fraction(1, 2)), PathOperator(3, 1))
    assert keys(policy, [ReadyQueue(("new",), path, 0, 1, 7), ReadyQueue(("old",), path, 0, 1, 6)]) == ["old", "new"]
    assert keys(policy, [ReadyQueue((at,), flat, at, 1, 7) for at in range(3)]) == [2, 1, 0]


def test_round_robin_continues_after_the_last_queue_that_was_served():
    ready = [ReadyQueue((key,), UNIT, 0, 1, 0) for key in ("d", "a", "b")]
    assert keys(RoundRobin(), ready) == ["a", "b", "d"]
    assert keys(RoundRobin(), ready, Past(("b",))) == ["d", "a", "b"]
    assert keys(RoundRobin(), ready, Past(("c",))) == ["d", "a", "b"]
    assert keys(RoundRobin(), ready, Past(("d",))) == ["a", "b", "d"]


def test_queues_that_would_exceed_the_bound_on_latency_go_first():
    path = (PathOperator(1, 1), PathOperator(1, 1))
    ready = [ReadyQueue(("steep",), (PathOperator(1, 0),), 0, 3, 99), ReadyQueue(("old",), path, 0, 2, 90)]
    # The old input has 4 s of work, and a batch lasts 1 s from 100 on: it leaves at 105, at the age of 15.
    assert keys(SteepestChain(latency_s=15), ready) == ["steep", "old"]
    assert keys(SteepestChain(latency_s=14.9), ready) == ["old", "steep"]
    # The steep input, behind it, leaves at 108, at the age of 9.
    assert keys(SteepestChain(latency_s=8.9), ready) == ["old", "steep"]


def test_weighted_fair_serves_the_owner_with_the_least_service_by_weight():
    ready = [
        ReadyQueue((key,), UNIT, 0, 1, 0, owner=key, weight=weight) for key, weight in (("a", 1), ("b", 2), ("c", 4))
    ]
    # After one second for each, the tags are a 1, b 1/2, c 1/4; then c 1/2.
    assert keys(WeightedFair(), ready, Past(None, 0, {"a": 1, "b": 0.5, "c": 0.25})) == ["c", "b", "a"]
    again = [*ready, ReadyQueue(("c", 2), UNIT, 0, 1, 1, owner="c", weight=4)]
    assert keys(WeightedFair(), again) == ["a", "b", "c", "c"]
    assert keys(WeightedFair(), again, Past(None, 0, {"a": 1, "b": 0.5})) == ["c", "c", "b", "a"]


def test_queues_in_front_count_as_served_when_the_next_is_chosen():
    owners = (("a", 0, 3), ("a", 1, 3), ("b", 0, 1), ("b", 1, 1), ("b", 2, 4))
    ready = [ReadyQueue((owner, age), UNIT, 0, seconds, age, owner=owner) for owner, age, seconds in owners]
    # tags: a begins at 0, b at 0, 1 and 2; a's second queue begins at 3, after the three seconds of its first one
    order = [queue.key for queue in WeightedFair().order(ready, Past(), NOW)]
    assert order == [("a", 0), ("b", 0), ("b", 1), ("b", 2), ("a", 1)]


def test_idle_owner_accumulates_no_credit():
    past = Past()
    working, away = (ReadyQueue((key,), UNIT, 0, 50, 0, owner=key) for key in "wa")
    for _ in range(10):
        past = past.after(working, 1)
    order = []
    for _ in range(6):
        granted, past = grants(WeightedFair(), past, [working, away], Moment(0, 1))
        order.append(granted[0].ready.key[0])
    # The last second of w began at 9. Therefore a begins at 9, not at 0: it gets one second more than w, then they
    # alternate.
    assert order == ["a", "a", "w", "a", "w", "a"]
    assert past.ahead.keys() <= {"a", "w"}


@given(
    st.lists(st.tuples(st.integers(1, 9), st.fractions(Fraction(1, 9), 9, max_denominator=9)), min_size=2, max_size=5),
    st.fractions(Fraction(1, 4), 3, max_denominator=4),
)
def test_weighted_services_differ_by_at_most_one_batch(owners, budget):
    """Start-time fair queueing: while two queues are never empty, their services divided by weight differ by at most
    one batch of each."""
    ready = [
        ReadyQueue((number,), (PathOperator(cost, 1),), 0, 10**6, number, owner=str(number), weight=weight)
        for number, (weight, cost) in enumerate(owners)
    ]
    past, received = Past(), [0] * len(owners)
    for _ in range(60):
        granted, past = grants(WeightedFair(), past, ready, Moment(0, budget))
        for grant in granted:
            received[grant.ready.key[0]] += grant.seconds
        served = [(seconds / weight, budget / weight) for seconds, (weight, _) in zip(received, owners, strict=True)]
        for queue, batch in served:
            for other, other_batch in served:
                assert queue - other <= (batch + other_batch) * (1 + 1e-9)
    assert sum(received) == pytest.approx(60 * float(budget))


@st.composite
def queues(draw):
    kinds = draw(st.lists(paths(ANY_COST, least=1), min_size=1, max_size=5))
    return [
        ReadyQueue(
            (number,),
            path,
            draw(st.integers(0, len(path) - 1)),
            draw(st.fractions(Fraction(1, 8), 20)),
            draw(st.integers(0, 9)),
            owner=draw(st.sampled_from("ab")),
            weight=draw(st.integers(1, 3)),
        )
        for number, path in enumerate(kinds)
    ]


EVERY = [*POLICIES.values(), SteepestChain(latency_s=95)]


@pytest.mark.parametrize("policy", EVERY, ids=str)
@given(ready=queues(), budget=st.fractions(Fraction(1, 8), 60))
def test_grants_fill_the_budget_or_serve_everything(policy, ready, budget):
    granted, past = grants(policy, Past(), ready, Moment(100, budget))
    there = sum(queue.size * queue.cost for queue in ready)
    assert sum(grant.seconds for grant in granted) == pytest.approx(float(min(budget, there)), rel=1e-6)
    assert len({grant.ready.key for grant in granted}) == len(granted) > 0
    assert all(0 < grant.size <= grant.ready.size for grant in granted)
    assert [grant.ready for grant in granted] == policy.order(ready, Past(), Moment(100, budget))[: len(granted)]
    assert past.last == granted[-1].ready.key


@pytest.mark.parametrize("policy", EVERY, ids=str)
@given(ready=queues(), seed=st.randoms(use_true_random=False))
def test_the_order_has_all_ready_queues_and_does_not_depend_on_their_order(policy, ready, seed):
    order = policy.order(ready, Past(), NOW)
    assert sorted(queue.key for queue in order) == [queue.key for queue in ready]
    mixed = list(ready)
    seed.shuffle(mixed)
    assert policy.order(mixed, Past(), NOW) == order


def test_a_batch_without_time_is_refused():
    with pytest.raises(InternalError, match="the budget of a batch must be positive, not 0 s"):
        grants(Fifo(), Past(), [], Moment(0, 0))
    assert grants(Fifo(), Past(), [], NOW) == ((), Past())


@pytest.mark.parametrize("policy", [*EVERY, SteepestChain(1 / 3), SteepestChain(1e-7), SteepestChain(1e20)], ids=str)
def test_the_text_of_a_policy_names_it(policy):
    again = parse_policy(str(policy))
    assert type(again) is type(policy)
    assert getattr(again, "latency_s", None) == pytest.approx(getattr(policy, "latency_s", None))


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("chain", SteepestChain()),
        (" CHAIN ( LATENCY=250ms ) ", SteepestChain(0.25)),
        ("chain(latency = 1.5 s)", SteepestChain(1.5)),
        ("chain(latency = 2 seconds)", SteepestChain(2)),
        ("chain(latency = 2 minutes)", SteepestChain(120)),
        ("weighted_fair", WeightedFair()),
        ("round_robin", RoundRobin()),
        ("greedy", Greedy()),
        ("fifo", Fifo()),
    ],
)
def test_policies_are_read(text, policy):
    assert parse_policy(text) == policy


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "lifo",
            'policy "lifo" not found; have: round_robin, fifo, greedy, chain, chain(latency = 2 s), weighted_fair',
        ),
        ("", 'policy "" not found; have: '),
        ("chain(", 'policy "chain(" not found; have: '),
        ("fifo(latency = 2 s)", 'policy "fifo" takes no options; have: '),
        ("chain()", 'invalid option "" of policy "chain"; for example chain(latency = 2 s)'),
        ("chain(latency = 2)", 'invalid option "latency = 2" of policy "chain"; for example'),
        ("chain(latency = 2 h)", 'invalid option "latency = 2 h" of policy "chain"; for example'),
        ("chain(latency = 0 s)", 'invalid option "latency = 0 s" of policy "chain"; for example'),
        ("chain(latency = -1 s)", 'invalid option "latency = -1 s" of policy "chain"; for example'),
        ("chain(bound = 1 s)", 'invalid option "bound = 1 s" of policy "chain"; for example'),
    ],
)
def test_unknown_policies_are_refused_with_the_choices(text, message):
    with pytest.raises(UserError) as refused:
        parse_policy(text)
    assert str(refused.value).startswith(message)
