"""Values of aggregates in Python: instants and dates are numbers for other bodies, and Python's dates for the class."""

from __future__ import annotations

import datetime

import polars as pl
import pyarrow as pa

from operators.python import Package, PythonClass, register
from operators.user_aggregates.generate import COME, END
from operators.user_aggregates.python_events import fold_values, value_of_rows


class Span:
    def initialise(self, day: datetime.date) -> None:
        self.first = self.last = day

    def iterate(self, day: datetime.date) -> None:
        self.last = day

    def terminate(self) -> dict[str, datetime.date]:
        return {"first": self.first, "last": self.last}


DAYS = pa.struct([("first", pa.date32()), ("last", pa.date32())])
METHODS = frozenset({"initialise", "iterate", "terminate"})
MADE = PythonClass("span", (("day", pa.date32()),), DAYS, "", Package(register(Span), registered=True), METHODS)


def test_columns_of_dates() -> None:
    days = pl.Series([datetime.date(1970, 1, 2), datetime.date(1970, 1, 5)])
    states, at, values = fold_values(
        MADE, pl.Series([2]).to_numpy(), pl.Series([COME, COME | END]).to_numpy(), [days], [None]
    )
    assert (at, values) == ([1], [{"first": 1, "last": 4}])
    again = fold_values(MADE, pl.Series([1]).to_numpy(), pl.Series([COME | END]).to_numpy(), [days[:1]], states)
    assert again[1:] == ([0], [{"first": 1, "last": 1}])


def test_value_of_rows_of_another_function_body() -> None:
    assert value_of_rows(MADE, [(3,), (9,)], come=COME, end=END) == [{"first": 3, "last": 9}]
