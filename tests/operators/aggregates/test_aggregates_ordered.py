"""Aggregates that depend on an order of the rows, compared with plain Python over the rows in the order of arrival."""

from __future__ import annotations

from collections import Counter, defaultdict

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.aggregates import AGGREGATES
from operators.aggregates.aggregate import Aggregate
from operators.core.delta import Delta
from operators.core.sort_key import SortKey
from operators.grouping.group_by import GroupBy
from tests.operators.group_histories import (
    CUTS,
    END,
    EVENTS,
    INSERTS,
    SCHEMA,
    SEEDS,
    canonical,
    changes_of,
    comparable,
    delta_of,
    relation,
    rows_at,
    run,
)
from tests.support.strategies import examples

BY_Y, BY_Y_DOWN = (SortKey("y"),), (SortKey("y", descending=True),)
#: The columns of the histories: the operator gets all of them, so that it takes equal rows as equal.
NAMES = ["k", "x", "y", "s", "p"]
NARROW = pa.schema([SCHEMA.field(name) for name in NAMES])


def use(name: str, function: str, *arguments: str, **more) -> Aggregate:
    type_ = AGGREGATES[function].result(tuple(SCHEMA.field(argument).type for argument in arguments))
    return Aggregate(name, function, arguments, type_, **more)


def column(rows, name: str) -> list:
    return [row[NAMES.index(name)] for row in rows]


def sorted_by_y(rows, descending: bool = False) -> list:
    """Rows sorted by y, stably; NULL is the greatest."""
    signs = [((1, 0) if y is None else (0, y)) for y in column(rows, "y")]
    order = sorted(
        range(len(rows)), key=lambda at: (tuple(-part for part in signs[at]) if descending else signs[at], at)
    )
    return [rows[at] for at in order]


def present(values) -> list:
    return [value for value in values if value is not None]


def distinct(values) -> list:
    return list(dict.fromkeys(values))


def joined(values, separator: str = ",") -> str | None:
    return separator.join(present(values)) if present(values) else None


def commonest(values):
    counts = Counter(present(values))
    return min(counts, key=lambda value: (-counts[value], value)) if counts else None


def extreme(rows, sign: int):
    pairs = [(sign * y, x) for x, y in zip(column(rows, "x"), column(rows, "y"), strict=True) if None not in (x, y)]
    return min(pairs)[1] if pairs else None


CASES = {
    "first": (use("a", "first", "x"), lambda rows: column(rows, "x")[0] if rows else None),
    "last": (use("a", "last", "s"), lambda rows: column(rows, "s")[-1] if rows else None),
    "any_value": (use("a", "any_value", "x"), lambda rows: next(iter(present(column(rows, "x"))), None)),
    "first by": (
        use("a", "first", "x", order_by=BY_Y),
        lambda rows: column(sorted_by_y(rows), "x")[0] if rows else None,
    ),
    "last by": (
        use("a", "last", "x", order_by=BY_Y_DOWN),
        lambda rows: column(sorted_by_y(rows, descending=True), "x")[-1] if rows else None,
    ),
    "arg_min": (use("a", "arg_min", "x", "y"), lambda rows: extreme(rows, 1)),
    "arg_max": (use("a", "max_by", "x", "y"), lambda rows: extreme(rows, -1)),
    "mode": (use("a", "mode", "x"), lambda rows: commonest(column(rows, "x"))),
    "string_agg": (
        use("a", "listagg", "s", parameters=("-",)),
        lambda rows: joined(column(rows, "s"), "-"),
    ),
    "string_agg by": (
        use("a", "string_agg", "s", order_by=BY_Y),
        lambda rows: joined(column(sorted_by_y(rows), "s")),
    ),
    "array_agg": (use("a", "array_agg", "x"), lambda rows: tuple(column(rows, "x")) if rows else None),
    "array_agg by": (
        use("a", "array_agg", "s", order_by=BY_Y_DOWN),
        lambda rows: tuple(column(sorted_by_y(rows, descending=True), "s")) if rows else None,
    ),
    "first filtered": (
        use("a", "first", "x", filter="p"),
        lambda rows: next(iter(column([row for row in rows if row[4]], "x")), None),
    ),
    "count of pairs": (
        use("a", "count", "x", "y", distinct=True),
        lambda rows: len({pair for pair in zip(column(rows, "x"), column(rows, "y"), strict=True) if None not in pair}),
    ),
}


def narrow(events) -> list:
    return [((e[0][0], e[0][2], e[0][3], e[0][8], e[0][9]), *e[1:4], False) for e in events]


def check(case: str, events, cuts, seed, keys, append_only=False) -> None:
    aggregate, expected = CASES[case]
    changes = changes_of(narrow(events))
    group = GroupBy(keys, (aggregate,), NARROW, append_only=append_only)
    delta = delta_of(changes, NARROW, seed)
    output, _ = run(group, delta, cuts)
    effective = consolidated(delta)
    for at in range(-1, END):
        rows = rows_at(effective, at)
        groups = {row[:1] for row in rows} if keys else {()}
        answers = [(*key, expected([row for row in rows if row[: len(keys)] == key])) for key in groups]
        assert relation(output, at) == Counter(tuple(map(comparable, answer)) for answer in answers), at
    assert canonical(output) == canonical(run(group, delta_of(changes, NARROW, seed + 1))[0])


def consolidated(delta: Delta) -> list:
    """The changes in log order, each of one row, without those that cancel within an instant.

    Equal rows that are only inserted keep their orders.
    """
    grouped = defaultdict(list)
    for row in delta.frame.rows():
        grouped[(row[:-4], row[-4])].append((row[-2], row[-1]))
    changes = []
    for (row, at), weighted_orders in grouped.items():
        if min(weight for weight, _ in weighted_orders) < 0:
            net, order = sum(weight for weight, _ in weighted_orders), max(order for _, order in weighted_orders)
            weighted_orders = [(1 if net > 0 else -1, order)] * abs(net)
        changes += [(row, at, weight, order) for weight, order in weighted_orders]
    return sorted(changes, key=lambda change: (change[1], change[3]))


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=examples(25))
@given(events=EVENTS, cuts=CUTS, seed=SEEDS, keys=st.sampled_from([(), ("k",)]))
def test_ordered_aggregates_at_every_instant(case, events, cuts, seed, keys) -> None:
    spread = [(event[0], max(event[1], 1 if event[2] else 0), *event[2:]) for event in events]
    check(case, spread, cuts, seed, keys)


@pytest.mark.parametrize("case", ["first", "last", "any_value", "last by", "arg_max"])
@settings(max_examples=examples(15))
@given(events=INSERTS, cuts=CUTS, seed=SEEDS, keys=st.sampled_from([(), ("k",)]))
def test_ordered_aggregates_of_rows_that_are_never_retracted(case, events, cuts, seed, keys) -> None:
    check(case, events, cuts, seed, keys, append_only=True)
