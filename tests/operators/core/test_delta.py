"""Deltas: the elements define the relation at every instant, and no rearrangement changes it."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.core.delta import FOREVER, FROM, ORDER, TO, WEIGHT, Delta, polars_schema, union_all

ELEMENT = st.tuples(
    st.sampled_from([None, 1, 2]),
    st.sampled_from([None, "a", "b"]),
    st.integers(0, 9),
    st.sampled_from([3, 6, 10, FOREVER]),
    st.sampled_from([-2, -1, 1, 2]),
)
ELEMENTS = st.lists(ELEMENT, max_size=12)
INSTANTS = range(-1, 12)


def delta_of(elements) -> Delta:
    columns = {"a": pl.Int64, "b": pl.String, FROM: pl.Int64, TO: pl.Int64, WEIGHT: pl.Int64}
    frame = pl.DataFrame([element for element in elements], schema=columns, orient="row")
    return Delta(frame.with_columns(pl.Series(ORDER, range(frame.height), pl.Int64)))


def multiplicities(elements, at) -> dict:
    counted: Counter = Counter()
    for a, b, start, end, weight in elements:
        if start <= at < end:
            counted[(a, b)] += weight
    return {row: weight for row, weight in counted.items() if weight}


def relation(delta: Delta, at: int) -> dict:
    return multiplicities(delta.frame.select("a", "b", FROM, TO, WEIGHT).iter_rows(), at)


@given(ELEMENTS)
def test_consolidation_keeps_the_relation_and_leaves_one_element_of_a_kind(elements) -> None:
    delta = delta_of(elements).consolidate()
    for at in INSTANTS:
        assert relation(delta, at) == multiplicities(elements, at)
    kinds = delta.frame.select("a", "b", FROM, TO)
    assert kinds.is_unique().all()
    assert (delta.frame[WEIGHT] != 0).all()


@given(ELEMENTS, ELEMENTS)
def test_sum_and_negation(left, right) -> None:
    both = union_all([delta_of(left), delta_of(right)])
    for at in INSTANTS:
        assert relation(both, at) == multiplicities([*left, *right], at)
    assert not len(union_all([delta_of(left), delta_of(left).negate()]).consolidate())


@given(ELEMENTS, st.integers(0, 11))
def test_advance_keeps_the_relation_from_the_frontier_on(elements, frontier) -> None:
    advanced = delta_of(elements).advance(frontier)
    for at in range(frontier, 12):
        assert relation(advanced, at) == multiplicities(elements, at)
    assert (advanced.frame[FROM] >= frontier).all()
    assert (advanced.frame[TO] > frontier).all()


@given(ELEMENTS, st.integers(0, 10), st.integers(0, 10))
def test_between_selects_elements_by_their_start(elements, bound, other_bound) -> None:
    start, end = sorted((bound, other_bound))
    assert len(delta_of(elements).between(start, end)) == sum(start <= element[2] < end for element in elements)


@given(ELEMENTS, st.integers(-1, 11))
def test_snapshot_is_a_bag_or_refuses_a_negative_one(elements, at) -> None:
    expected = multiplicities(elements, at)
    if any(weight < 0 for weight in expected.values()):
        with pytest.raises(ValueError, match=f"negative multiplicity at instant {at}"):
            delta_of(elements).snapshot(at)
    else:
        assert Counter(delta_of(elements).snapshot(at).rows()) == Counter(expected)


@given(ELEMENTS)
def test_arrow_bytes_round_trip(elements) -> None:
    delta = delta_of(elements)
    assert Delta.from_ipc(delta.to_ipc()).frame.equals(delta.frame)


def test_signed_rows_and_empty() -> None:
    schema = pa.schema([("a", pa.int32()), ("s", pa.string())])
    delta = Delta.of([("+", {"a": 1, "s": "x"}, 5), ("-", {"a": 1, "s": "x"}, 7)], schema)
    assert delta.columns == ["a", "s"]
    assert [delta.snapshot(at).rows() for at in (4, 5, 6, 7)] == [[], [(1, "x")], [(1, "x")], []]
    assert len(Delta.empty(polars_schema(schema))) == 0
    assert Delta.empty(polars_schema(schema)).frame.schema == delta.frame.schema
