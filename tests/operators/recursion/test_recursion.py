"""Recursion, compared with closures computed from scratch at each instant, for any history and division of time."""

from collections import Counter

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.core.delta import FOREVER, FROM, ORDER, TO, WEIGHT, Delta
from operators.core.errors import UserError
from operators.core.operator import Move
from operators.expressions import Column, Literal, call
from operators.recursion.recursion import Recursion
from operators.recursion.term import Given, Paired, Projected, Recurred, Rule, Selected
from tests.operators.stepping import END, STOPS, rows_at

NODE = pa.int64()
PATHS = pa.schema([("a", NODE), ("b", NODE)])
EDGES = {"c": pl.Int64, "d": pl.Int64, **dict.fromkeys((FROM, TO, WEIGHT, ORDER), pl.Int64)}
#: (from, to, instant, how long the edge stays).
EDGE = st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, END - 1), st.integers(1, END))
HISTORY = st.lists(EDGE, max_size=14)


def column(name: str) -> Column:
    return Column(name, NODE, nullable=False)


def named(term, **of: str) -> Projected:
    return Projected(term, tuple((name, column(old)) for name, old in of.items()))


BASE = Rule(0, named(Given(0), a="c", b="d"))
LINEAR = Rule(0, named(Paired(Recurred(0), Given(0), ("b",), ("c",)), a="a", b="d"))
BOTH = Rule(0, named(Paired(Recurred(0), named(Recurred(0), x="a", y="b"), ("b",), ("x",)), a="a", b="y"))
CLOSURES = {"linear": (BASE, LINEAR), "two of itself": (BASE, BOTH), "both": (BASE, LINEAR, BOTH)}


def changes(history) -> Delta:
    rows = []
    for order, (c, d, begin, stays) in enumerate(history):
        rows.append((c, d, begin, FOREVER, 1, order))
        if begin + stays < END:
            rows.append((c, d, begin + stays, FOREVER, -1, order))
    return Delta(pl.DataFrame(rows, schema=EDGES, orient="row"))


def steps_of(operator: Recursion, delta: Delta, stops: list[int], *others: Delta):
    edges = [0, *stops, END]
    traces, steps = operator.traces(), []
    for start, end in zip(edges, edges[1:], strict=False):
        inputs = [given.between(start, end) if len(given) else given for given in (delta, *others)]
        steps.append(operator.step(*inputs, traces, Move(start, end)))
        traces = steps[-1].traces
    return steps


def edges_at(history, at: int) -> set[tuple[int, int]]:
    return {(c, d) for c, d, begin, stays in history if begin <= at < begin + stays}


def closure(edges: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """Pairs of nodes with a path between them, by a search from each node."""
    found = set()
    for start in {node for edge in edges for node in edge}:
        waiting, seen = [start], set()
        while waiting:
            at = waiting.pop()
            following = {d for c, d in edges if c == at} - seen
            seen |= following
            waiting += following
        found |= {(start, end) for end in seen}
    return found


@pytest.mark.parametrize("rules", CLOSURES.values(), ids=CLOSURES)
@given(HISTORY, STOPS)
def test_transitive_closure_at_every_instant_for_any_division_of_time(rules, history, stops) -> None:
    steps = steps_of(Recursion("paths", (PATHS,), rules, 0), changes(history), stops)
    for at in range(END):
        assert rows_at(steps, ("a", "b"), at) == Counter(closure(edges_at(history, at)))


@given(HISTORY, STOPS)
def test_no_division_of_time_changes_an_element(history, stops) -> None:
    def elements(stops):
        steps = steps_of(Recursion("paths", (PATHS,), CLOSURES["both"], 0), changes(history), stops)
        return sorted(row for step in steps for row in step.delta.frame.rows())

    assert elements(stops) == elements([])


@given(HISTORY, STOPS)
def test_mutual_recursion(history, stops) -> None:
    """Ends of paths of even and of odd length from node 0, each defined by the other."""
    ends = pa.schema([("n", NODE)])
    zero = Selected(named(Given(0), n="c"), call("equal", column("n"), Literal(0, NODE)))
    rules = (
        Rule(0, zero),
        Rule(1, named(Paired(Recurred(0), Given(0), ("n",), ("c",)), n="d")),
        Rule(0, named(Paired(Recurred(1), Given(0), ("n",), ("c",)), n="d")),
    )
    for output in (0, 1):
        steps = steps_of(Recursion("ends", (ends, ends), rules, output), changes(history), stops)
        for at in range(END):
            edges = edges_at(history, at)
            doubled = {((c, p), (d, 1 - p)) for c, d in edges for p in (0, 1)}
            found = {end for start, end in closure(doubled) if start == (0, 0)}
            found |= {(0, 0)} if any(c == 0 for c, _ in edges) else set()
            assert rows_at(steps, ("n",), at) == Counter((node,) for node, parity in found if parity == output)


def test_rows_that_derive_each_other_go_with_what_they_came_from() -> None:
    """The cycle 1 → 2 → 3 → 1 is reached from 0; without the edge from 0 to it, no row from 0 remains."""
    history = [(1, 2, 0, END), (2, 3, 0, END), (3, 1, 0, END), (0, 1, 2, 4)]
    steps = steps_of(Recursion("paths", (PATHS,), CLOSURES["linear"], 0), changes(history), [5])
    assert {row for row in rows_at(steps, ("a", "b"), 5) if row[0] == 0} == {(0, 1), (0, 2), (0, 3)}
    assert not {row for row in rows_at(steps, ("a", "b"), 6) if row[0] == 0}


def test_endless_recursion_is_reported_with_its_name() -> None:
    counted = Projected(Recurred(0), (("a", call("add", column("a"), Literal(1, NODE))), ("b", column("b"))))
    operator = Recursion("numbers", (PATHS,), (BASE, Rule(0, counted)), 0, limit=20)
    with pytest.raises(UserError, match="WITH RECURSIVE numbers has not ended after 20 iterations"):
        steps_of(operator, changes([(1, 1, 0, END)]), [])


def at_most(pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("operators.recursion.joining.MAX_PAIRS", pairs)
    monkeypatch.setattr("operators.recursion.joining.MAX_RAW_PAIRS", 2 * pairs)


def test_recursion_with_too_many_rows_is_reported_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    at_most(30, monkeypatch)
    history = [(start, end, 0, END) for start in range(4) for end in range(4)]
    operator = Recursion("paths", (PATHS,), CLOSURES["both"], 0)
    with pytest.raises(
        UserError, match="WITH RECURSIVE paths derives more than 30 rows in one iteration at one instant"
    ):
        steps_of(operator, changes(history), [])


def test_rows_that_cannot_be_evaluated_are_reported() -> None:
    divided = Projected(Recurred(0), (("a", call("modulo", Literal(1, NODE), column("a"))), ("b", column("b"))))
    operator = Recursion("divided", (PATHS,), (BASE, Rule(0, divided)), 0)
    (step,) = steps_of(operator, changes([(0, 7, 3, END)]), [])
    assert rows_at([step], ("a", "b"), 3) == Counter([(0, 7)])
    assert step.faults is not None
    assert step.faults.select(FROM, ORDER, "row").rows() == [(3, 0, '{"a":0,"b":7}')]


@given(HISTORY, HISTORY, STOPS)
def test_no_division_of_time_changes_which_rows_are_in_fault(history, others, stops) -> None:
    """Pairs that would enter and leave at one instant never exist, so no expression is evaluated for them."""
    divided = named(Given(1), e="c", f="d")
    rule = Projected(
        Paired(Recurred(0), divided, ("b",), ("e",)),
        (("a", call("modulo", column("a"), column("f"))), ("b", column("f"))),
    )
    operator = Recursion("divided", (PATHS,), (BASE, Rule(0, rule)), 0)

    def faults(stops) -> set:
        steps = steps_of(operator, changes(history), stops, changes(others))
        return {row for step in steps if step.faults is not None for row in step.faults.select(FROM, "row").rows()}

    assert faults(stops) == faults([])


def test_pair_that_never_existed_causes_no_fault() -> None:
    """The row (1, 7) enters at the instant at which its only partner (7, 0) leaves, in one step or in two."""
    partner = named(Given(1), e="c", f="d")
    divided = (("a", call("modulo", column("a"), column("f"))), ("b", column("f")))
    rule = Rule(0, Projected(Paired(Recurred(0), partner, ("b",), ("e",)), divided))
    operator = Recursion("divided", (PATHS,), (BASE, rule), 0)
    for stops in ([], [5]):
        steps = steps_of(operator, changes([(1, 7, 5, END)]), stops, changes([(7, 0, 1, 4)]))
        assert all(step.faults is None for step in steps)


def test_pair_limit_applies_to_each_instant_separately(monkeypatch: pytest.MonkeyPatch) -> None:
    """One edge for each instant: no instant has more than a few pairs, in one step or in several."""
    at_most(3, monkeypatch)
    history = [(0, 0, at, 1) for at in range(END)]
    operator = Recursion("paths", (PATHS,), CLOSURES["both"], 0)
    for stops in ([], [2, 5]):
        steps = steps_of(operator, changes(history), stops)
        assert all(rows_at(steps, ("a", "b"), at) == Counter([(0, 0)]) for at in range(END))


@given(HISTORY, STOPS)
def test_pairs_formed_in_parts_equal_all_pairs(history, stops) -> None:
    operator = Recursion("paths", (PATHS,), CLOSURES["both"], 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("operators.recursion.joining.MAX_PAIRS", 2)
        patch.setattr("operators.recursion.recursion.refuse_too_many", lambda *_: None)
        steps = steps_of(operator, changes(history), stops)
    for at in range(END):
        assert rows_at(steps, ("a", "b"), at) == Counter(closure(edges_at(history, at)))


def test_pairs_that_cancel_out_at_an_instant_are_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven rows enter at the instant at which their seven partners leave."""
    at_most(30, monkeypatch)
    pair = Paired(named(Given(0), a="c", k="d"), named(Given(1), j="c", b="d"), ("k",), ("j",))
    operator = Recursion("pairs", (PATHS,), (Rule(0, named(pair, a="a", b="b")),), 0)
    left, right = ([(*row, *when) for row in rows] for rows, when in (
        ([(at, 9) for at in range(7)], (5, END)), ([(9, at) for at in range(7)], (1, 4))))  # fmt: skip
    for stops in ([], [5]):
        steps = steps_of(operator, changes(left), stops, changes(right))
        assert all(not step.delta.frame.height for step in steps)


def test_pairs_of_several_layers_are_not_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten rows in each of two layers meet two partners that enter later: twenty pairs in each layer."""
    at_most(30, monkeypatch)
    rules = (
        Rule(0, named(Given(0), a="c", b="d")),
        Rule(0, Projected(Recurred(0), (("a", column("a")), ("b", Literal(100, NODE))))),
        Rule(1, named(Paired(Recurred(0), named(Given(1), j="c", k="d"), (), ()), a="a", b="k")),
    )
    operator = Recursion("pairs", (PATHS, PATHS), rules, 1)
    partners = [(0, 7, 5, END), (0, 8, 5, END)]
    for stops in ([], [5]):
        steps = steps_of(operator, changes([(at, 1, 1, END) for at in range(10)]), stops, changes(partners))
        assert len(rows_at(steps, ("a", "b"), 6)) == 20


def test_parts_of_pairs_with_a_column_named_n_and_of_a_side_without_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    at_most(4, monkeypatch)
    monkeypatch.setattr("operators.recursion.recursion.refuse_too_many", lambda *_: None)
    edges = [(at, at + 1, 1, END) for at in range(4)]
    named_n = Projected(Given(0), (("a", column("c")), ("n", column("d"))))
    onwards = Projected(Paired(Recurred(0), Given(0), ("n",), ("c",)), (("a", column("a")), ("n", column("d"))))
    paths = pa.schema([("a", NODE), ("n", NODE)])
    steps = steps_of(Recursion("paths", (paths,), (Rule(0, named_n), Rule(0, onwards)), 0), changes(edges), [])
    assert rows_at(steps, ("a", "n"), 2) == Counter(closure({(at, at + 1) for at in range(4)}))
    exists = named(Paired(Recurred(0), Projected(Given(1), ()), (), ()), a="b", b="a")
    operator = Recursion("turned", (PATHS,), (BASE, Rule(0, exists)), 0)
    steps = steps_of(operator, changes(edges), [], changes([(at, at, at, 1) for at in range(END)]))
    assert len(rows_at(steps, ("a", "b"), 2)) == 8


def test_a_row_in_fault_above_a_join_is_shown_without_its_layer() -> None:
    divided = (("a", call("modulo", column("a"), column("d"))), ("b", column("b")))
    rule = Rule(0, Projected(Paired(Recurred(0), Given(0), ("b",), ("c",)), divided))
    (step,) = steps_of(Recursion("divided", (PATHS,), (BASE, rule), 0), changes([(1, 2, 1, END), (2, 0, 1, END)]), [])
    assert step.faults is not None
    assert step.faults["row"].to_list() == ['{"a":1,"b":2,"c":2,"d":0}']


def test_zero_is_shown_without_a_sign() -> None:
    """0.0 and -0.0 are one row, so the result does not depend on which of them came first."""
    columns = pa.schema([("x", pa.float64())])
    rule = Rule(0, Projected(Given(0), (("x", Column("x", pa.float64())),)))
    operator = Recursion("zeros", (columns,), (rule,), 0)
    found = steps_of(operator, Delta.of([("+", {"x": -0.0}, 1), ("+", {"x": 0.0}, 2), ("-", {"x": -0.0}, 3)]), [])
    assert [str(value) for step in found for value in step.delta.frame["x"]] == ["0.0"]
