"""The cheapest order of joins, compared with the number of pairs that each order would form, counted by DuckDB."""

from __future__ import annotations

import itertools

import duckdb
import pytest

from dsms.introspection.statistics import statistics_of
from dsms.planner.physical.cost.estimate import Statistics
from dsms.planner.physical.cost.join_choice import Choice, cheapest_orders
from dsms.testing import LocalSession

#: For each input: the number of values of its key and of its second column, and of its rows at an instant.
Inputs = dict[str, tuple[int, int, int]]
SPAN, LENGTH = 400, 49
SHAPES = {
    "chain": "a = b AND vb = vc AND c = d",
    "star": "a = b AND va = vc AND a = d",
    "one class": "a = b AND b = c AND c = d",
}


def records(name: str, inputs: Inputs):
    keys, values, rows = inputs[name]
    numbers = range(SPAN * rows)
    return [{name: at * 7919 % keys, f"v{name}": at * 104729 % values, "ts": at // rows} for at in numbers]


def played(condition: str, inputs: Inputs) -> tuple[LocalSession, Choice | None]:
    session = LocalSession()
    for name in inputs:
        session.execute(f"REGISTER SOURCE T{name} ({name} INT, v{name} INT) FROM t{name}")
        session.execute(f"CREATE STREAM S{name} OVER T{name} KEY NULL")
    froms = ", ".join(f"S{name} [RANGE {LENGTH}]" for name in inputs)
    session.execute(f"CREATE QUERY Q AS SELECT STREAMED a, COUNT(*) AS n FROM {froms} WHERE {condition} GROUP BY a")
    for name in inputs:
        session.push(f"T{name}", records(name, inputs))
    session.advance(SPAN)
    plan = next(plan for plan in session.runtime.revision.plan.queries.values() if plan.name == "Q")
    return session, cheapest_orders(plan, statistics_of(session.reports()))


def pairs_formed(condition: str, inputs: Inputs, order) -> float:
    """The number of pairs that all joins but the last one form, of rows whose instants differ by at most LENGTH."""
    database = duckdb.connect()
    for name in inputs:
        rows = ", ".join(str((row[name], row[f"v{name}"], row["ts"])) for row in records(name, inputs))
        database.execute(f"CREATE TABLE {name} AS SELECT * FROM (VALUES {rows}) t({name}, v{name}, ts)")
    formed = 0
    for count in range(2, len(inputs)):
        joined = order[:count]
        near = [f"abs({one}.ts - {two}.ts) <= {LENGTH}" for one, two in itertools.combinations(joined, 2)]
        closed = CLOSED[condition]
        conditions = [c for c in closed if {part.strip().removeprefix("v") for part in c.split("=")} <= set(joined)]
        formed += database.execute(
            f"SELECT count(*) FROM {', '.join(joined)} WHERE {' AND '.join([*near, *conditions])}"
        ).fetchone()[0]
    return formed


#: The conditions with their transitive closure.
CLOSED = {
    SHAPES["chain"]: ["a = b", "vb = vc", "c = d"],
    SHAPES["star"]: ["a = b", "va = vc", "a = d", "b = d"],
    SHAPES["one class"]: [f"{one} = {two}" for one, two in itertools.combinations("abcd", 2)],
}


def connected(condition: str, order) -> bool:
    """Whether a condition connects each input with the inputs before it."""
    pairs = [{part.strip().removeprefix("v") for part in c.split("=")} for c in CLOSED[condition]]
    return all(any(name in pair and pair & set(order[:at]) for pair in pairs) for at, name in enumerate(order) if at)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "inputs",
    [
        {"a": (20, 300, 1), "b": (20, 40, 1), "c": (300, 40, 1), "d": (300, 9, 1)},
        {"a": (300, 15, 1), "b": (300, 300, 1), "c": (50, 300, 1), "d": (15, 9, 1)},
        {"a": (60, 60, 2), "b": (60, 60, 1), "c": (60, 60, 1), "d": (200, 60, 1)},
    ],
)
def test_chosen_order_is_among_those_with_the_fewest_pairs(shape, inputs) -> None:
    condition = SHAPES[shape]
    _, choice = played(condition, inputs)
    assert choice is not None
    orders = [order for order in itertools.permutations("abcd") if connected(condition, order)]
    formed = {order: pairs_formed(condition, inputs, order) for order in orders}
    chosen = tuple("abcd"[at] for at in choice.orders[0])
    assert formed[chosen] <= 1.3 * min(formed.values()) + SPAN


def test_running_order_is_the_chosen_one_after_the_change() -> None:
    inputs = {"a": (20, 300, 1), "b": (20, 40, 1), "c": (300, 300, 1)}
    session, choice = played("a = b AND va = vc", inputs)
    assert choice is not None and choice.orders == ((0, 2, 1),) and choice.gain > 1.3
    session.execute("ALTER QUERY Q SET (join_order = '1, 3, 2')")
    for name in inputs:
        more = [{**record, "ts": record["ts"] + SPAN} for record in records(name, inputs)]
        session.push(f"T{name}", more)
    session.advance(2 * SPAN)
    plan = next(plan for plan in session.runtime.revision.plan.queries.values() if plan.name == "Q")
    assert plan.hints.join_orders == ((0, 2, 1),)
    again = cheapest_orders(plan, statistics_of(session.reports()))
    assert again is not None and again.orders == ((0, 2, 1),) and again.gain == 1.0


def test_no_order_is_chosen_without_measurements() -> None:
    session, _ = played("a = b AND va = vc", {name: (5, 5, 1) for name in "abc"})
    plan = next(plan for plan in session.runtime.revision.plan.queries.values() if plan.name == "Q")
    assert cheapest_orders(plan, Statistics()) is None
