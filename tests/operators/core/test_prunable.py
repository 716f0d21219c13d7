"""Operators that need not read all columns: columns that are left out do not change the wanted ones."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.core.delta import FROM, ORDER, Delta, in_time_order
from operators.core.operator import MEMBER, Move, Prunable
from operators.expressions import Column, Literal, call
from operators.relational.filter import Filter
from operators.relational.members import Members, Roster
from operators.relational.project import Project
from operators.streams.sample import Sample
from operators.streams.stamp import Stamp
from operators.streams.tagger import TS
from operators.sync.sync_points import Periodic
from operators.sync.synchronise import PeriodicSync
from operators.windows.assign import Assign
from operators.windows.now_filter import NowFilter, NowRange
from operators.windows.time_window import TimeWindow

A, B, C = (Column(name, pa.int64()) for name in "abc")
SCHEMA = pa.schema([(name, pa.int64()) for name in "abc"])
TWO = Literal(2, pa.int64())
#: Operators, each with the columns that it adds to those of its input.
OPERATORS = {
    "Filter": (Filter(call("greater", A, TWO)), ()),
    "Filter in fault": (Filter(call("equal", call("divide", TWO, A), TWO)), ()),
    "Project": (Project((("a", call("add", A, B)), ("b", call("divide", TWO, B)))), ()),
    "NowFilter": (NowFilter((NowRange(lower=A, condition=call("greater", B, TWO)),)), ()),
    "Members": (
        Members(
            "f",
            call("greater", A, Column("p", pa.int64())),
            (Column("p", pa.int64()),),
            roster=Roster((4, 7), {"p": (1, 3)}),
        ),
        (MEMBER,),
    ),
    "Stamp": (Stamp(), (TS,)),
    "PeriodicSync": (PeriodicSync(Periodic(3)), ()),
    "TimeWindow": (TimeWindow(4, 2), ()),
    "Assign": (Assign("hop", "b", size=4, slide=2), ("window_start", "window_end")),
    "Sample": (Sample(40.0, ("c",)), ()),
}
ROWS = st.lists(st.tuples(*[st.integers(0, 5)] * 4), max_size=12)


@pytest.mark.parametrize("name", OPERATORS)
@given(rows=ROWS, wanted=st.sets(st.sampled_from("abc")))
def test_columns_that_are_not_read_change_nothing(name: str, rows: list[tuple[int, ...]], wanted: set[str]) -> None:
    operator, made = OPERATORS[name]
    assert isinstance(operator, Prunable)
    delta = Delta.of([("+", {"a": a, "b": b, "c": c}, ts) for a, b, c, ts in rows], SCHEMA)
    names = frozenset({*wanted, *made})
    whole, part = (
        operator.step(input_delta, (), Move(0, 9))
        for input_delta in (delta, delta.select_columns(operator.reads(names)))
    )
    assert part.delta.select_columns(names).frame.equals(whole.delta.select_columns(names).frame)
    faults = [None if step.faults is None else step.faults.drop("row").rows() for step in (whole, part)]
    assert faults[0] == faults[1]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=8), st.sampled_from([(), (0,), (1,), (0, 1)]))
def test_in_time_is_the_order_of_instants_and_orders(pairs: list[tuple[int, int]], sorted_by: tuple[int, ...]) -> None:
    given_so = sorted(pairs, key=lambda pair: tuple(pair[at] for at in sorted_by))
    frame = pl.DataFrame(given_so, schema={FROM: pl.Int64, ORDER: pl.Int64}, orient="row")
    assert in_time_order(frame).rows() == sorted(pairs)
