"""Aggregates in Python: built-in aggregates' values on any history, errors that name the row, and limits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.aggregates.aggregate import Aggregate
from operators.aggregates.user_defined import folded, result_type
from operators.core.errors import UserError
from operators.python import Limits, PythonClass, fold_events, package_of
from operators.python.sandbox import sandbox_of
from operators.user_aggregates.definition import python_definition
from operators.user_aggregates.generate import COME, END, LEAVE, RESTART
from tests.operators.grouping.test_group_fold import built_in, changes_of, histories, written

SOURCE = """
import pyarrow.compute as pc

class Sum:
    total, present = 0, 0
    def initialise(self, x):
        self.iterate(x)
    def iterate(self, x):
        if x is not None:
            self.total, self.present = self.total + x, self.present + 1
    def terminate(self):
        return self.total if self.present else None

class SumInverse(Sum):
    def expire(self, x):
        if x is not None:
            self.total, self.present = self.total - x, self.present - 1

class Mean(Sum):
    def terminate(self):
        return self.total / self.present if self.present else None

class MeanInverse(SumInverse):
    def terminate(self):
        return self.total / self.present if self.present else None

class MeanArrays:
    def __init__(self):
        self.total, self.present = 0, 0
    def iterate_arrays(self, x):
        self.total += pc.sum(x).as_py() or 0
        self.present += len(x) - x.null_count
    def expire_arrays(self, x):
        self.total -= pc.sum(x).as_py() or 0
        self.present -= len(x) - x.null_count
    def expire(self, x):
        raise AssertionError("rows leave together")
    def iterate(self, x):
        raise AssertionError("rows come together")
    def terminate(self):
        return self.total / self.present if self.present else None

class Slots:
    __slots__ = ("total",)
    def initialise(self, x):
        self.total = x
    def iterate(self, x):
        self.total += 100 // x
    def terminate(self):
        return self.total

class Endless(Sum):
    def iterate(self, x):
        while x == 3:
            pass

class Large(Sum):
    def iterate(self, x):
        self.kept = [0] * (x << 20)

class Running:
    total = 0
    def iterate(self, x):
        self.total += x
        return self.total if x > 1 else None
"""
BASE = frozenset({"initialise", "iterate", "terminate"})
QUICK = Limits(seconds=5.0, bytes=300 << 20)


def python(handler: str, *more: str, result: pa.DataType | None = None, limits: Limits = QUICK) -> PythonClass:
    package = package_of(SOURCE.encode())
    parameters = (("x", pa.int64()),)
    return PythonClass("f", parameters, result or pa.float64(), handler, package, BASE | set(more), limits)


@pytest.fixture(autouse=True, scope="module")
def _no_process_left() -> Iterator[None]:
    yield
    sandbox_of.cache_clear()


def aggregate(made: PythonClass) -> Aggregate:
    own = python_definition(made)
    return Aggregate("v", "own@", ("x",), result_type(own), True, definition=own)


@pytest.mark.parametrize(
    ("name", "handler", "more"),
    [
        ("sum", "Sum", ()),
        ("sum", "SumInverse", ("expire",)),
        ("avg", "Mean", ()),
        ("avg", "MeanInverse", ("expire",)),
        ("avg", "MeanArrays", ("expire", "iterate_arrays", "expire_arrays")),
    ],
)
@settings(max_examples=15, deadline=None)
@given(histories(), st.booleans(), st.lists(st.integers(0, 50), max_size=4))
def test_the_same_aggregate_in_python_in_sql_and_built_in(
    name: str,
    handler: str,
    more: tuple[str, ...],
    changes: list[tuple[str, dict[str, object], int]],
    keyed: bool,
    cuts: list[int],
) -> None:
    keys = ("k",) if keyed else ()
    own = aggregate(python(handler, *more))
    assert (folded(own, append_only=False) is not None) == ("expire" in more)
    expected = changes_of(built_in(name), keys, changes, [])
    assert changes_of(own, keys, changes, cuts) == expected
    assert changes_of(written(name), keys, changes, cuts) == expected


def events(
    made: PythonClass, values: list[int], codes: list[int]
) -> tuple[list[bytes | None], list[int], list[object]]:
    arguments = [pa.array(values, pa.int64())]
    answer = fold_events(made, np.array([len(values)]), np.array(codes), arguments, [None])
    return answer.states, answer.at, answer.values.to_pylist()


def test_a_class_with_slots_continues_from_its_state() -> None:
    made = python("Slots")
    states, at, _ = events(made, [5], [COME])
    assert at == [] and states[0] is not None
    answer = fold_events(made, np.array([1]), np.array([COME | END]), [pa.array([50])], states)
    assert answer.values.to_pylist() == [7.0]


def test_group_restarts_with_an_empty_state() -> None:
    codes = [COME, COME | END, LEAVE, COME | RESTART | END]
    assert events(python("SumInverse", "expire"), [1, 2, 1, 9], codes)[1:] == ([1, 3], [3.0, 9.0])


def test_without_terminate_each_row_may_have_a_value() -> None:
    made = PythonClass("f", (("x", pa.int64()),), pa.int64(), "Running", package_of(SOURCE.encode()), frozenset())
    assert events(made, [1, 4, 2], [COME] * 3)[1:] == ([1, 2], [5, 7])


def test_an_error_names_the_row_and_the_line() -> None:
    with pytest.raises(UserError, match=r'aggregate "f" failed at the row x = 0: ZeroDivisionError') as told:
        events(python("Slots"), [5, 2, 0, 4], [COME] * 4)
    assert "self.total += 100 // x" in told.value.message
    assert events(python("Slots"), [5, 50], [COME, COME | END])[2] == [7.0]


def test_a_value_of_another_type_names_its_row() -> None:
    with pytest.raises(UserError, match="failed at the row x = 6"):
        events(python("Mean", result=pa.int64()), [1, 6], [COME, COME | END])


def test_an_endless_call_is_stopped() -> None:
    with pytest.raises(UserError, match=r"in a batch that starts with the row x = 1: it took longer than 0.5 s"):
        events(python("Endless", limits=Limits(0.5, 300 << 20)), [1, 3], [COME, COME])


def test_too_much_memory_is_an_error() -> None:
    with pytest.raises(UserError, match=r"at the row x = 4000: MemoryError"):
        events(python("Large"), [1, 4000], [COME, COME])
