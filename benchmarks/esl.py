"""Section 6 of ESL's paper, aggregates written in SQL over windows: `python -m benchmarks.esl`.

(a) The cost of a row for an average and for approximate frequencies, with windows of 10^2 to 10^6 rows: in SQL with
EXPIRE (A); the same in Python, calls only (B); in SQL that keeps the window in a table (C); and evaluated again over
the whole window for each row (D). A and B should not depend on the size of the window; D is linear in it.
(b) Throughput and state of a sum over the last 40 000 rows that slides by 1 to 40 000 rows, with and without panes.
(c) A sum in GROUP BY, written in SQL and built in.
All figures are of this process on one core. Writes `benchmarks/out/esl.json` and plots next to it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl
import pyarrow as pa
from matplotlib.figure import Figure

from benchmarks.report import Result, write_report
from dsms.model.catalog import Catalog
from dsms.sql.binder.aggregates.defined_aggregates import AggregateLookup, DefinitionText, definition_of
from operators.aggregates.aggregate import Aggregate
from operators.aggregates.user_defined import result_type
from operators.core.delta import BEGINNING, FOREVER, FROM, ORDER, TO, WEIGHT, Delta, polars_schema
from operators.core.operator import Move, State
from operators.grouping.group_by import GroupBy
from operators.user_aggregates.definition import Definition
from operators.user_aggregates.evaluate import Events, empty_groups, run
from operators.user_aggregates.fold_plan import FoldCall, Frame, chosen, over_window
from operators.user_aggregates.generate import COME, END, LEAVE
from operators.user_aggregates.stream_fold import StreamFold

OUT = Path(__file__).parent / "out" / "esl.json"
SCHEMA = pa.schema([("x", pa.int64())])
BATCH, MEASURED = 20_000, 20_000
WINDOW = 40_000
#: Compared figures are medians of this number of turns, in processor time.
TURNS = 15
OWN_WINDOW = """
CREATE AGGREGATE own_avg(x BIGINT, width BIGINT): DOUBLE {
  TABLE kept(n BIGINT, x BIGINT);
  TABLE state(total BIGINT, present BIGINT, come BIGINT);
  INITIALIZE: {
    INSERT INTO state VALUES (x, 1, 1);
    INSERT INTO kept VALUES (1, x);
    INSERT INTO RETURN VALUES (x);
  }
  ITERATE: {
    UPDATE state SET total = total + x, present = present + 1, come = come + 1;
    INSERT INTO kept SELECT come, x FROM state;
    UPDATE state SET total = total - coalesce((SELECT x FROM kept WHERE n = (SELECT come FROM state) - width), 0),
                     present = CASE WHEN come > width THEN width ELSE come END;
    DELETE FROM kept WHERE n = (SELECT come FROM state) - width;
    INSERT INTO RETURN SELECT total * 1.0 / present FROM state;
  }
}
"""


class Average:
    """The average as a Python class."""

    def __init__(self) -> None:
        self.total, self.present = 0.0, 0

    def iterate(self, x: float) -> None:
        self.total += x
        self.present += 1

    def expire(self, x: float) -> None:
        self.total -= x
        self.present -= 1

    def terminate(self) -> float | None:
        return self.total / self.present if self.present else None


class Frequency:
    """Approximate frequencies as a Python class: the minimum of four counters."""

    def __init__(self) -> None:
        from operators.user_aggregates.expression_code import HELPERS

        self.hashed: Any = HELPERS["hashed"]
        self.counters: list[dict[int, int]] = [{}, {}, {}, {}]
        self.places: list[int] = []

    def iterate(self, x: int) -> None:
        self.places = [self.hashed(x, seed) % 1024 for seed in range(4)]
        for counter, place in zip(self.counters, self.places, strict=True):
            counter[place] = counter.get(place, 0) + 1

    def expire(self, x: int) -> None:
        for seed, counter in enumerate(self.counters):
            place = self.hashed(x, seed) % 1024
            counter[place] -= 1
            if not counter[place]:
                del counter[place]

    def terminate(self) -> int:
        return min(counter[place] for counter, place in zip(self.counters, self.places, strict=True))


@dataclass(frozen=True)
class Case:
    """An aggregate of experiment (a)."""

    name: str
    definition: Definition
    python: type[Any]


def main() -> None:
    """Measures and writes the report and the plots."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.esl", description=__doc__)
    parser.add_argument("--largest", type=int, default=6, help="the largest window has 10^this rows")
    parser.add_argument("--naive", type=int, default=4, help="the same for running again over the window")
    options = parser.parse_args()
    sizes = [10**exponent for exponent in range(2, options.largest + 1)]
    results: list[Result] = []
    for case in _cases():
        curves = {"A": [(size, _delta(case, size)) for size in sizes]}
        if case.name == "average":
            curves["C"] = [(size, _own_window(size)) for size in sizes[:4]]
        curves["D"] = [(size, _naive(case, size)) for size in sizes if size <= 10**options.naive]
        results += [
            Result(f"{case.name} {k}, {n} rows", us, "µs/row", "lower") for k, c in curves.items() for n, us in c
        ]
        turns = [_calls(case) for _ in range(TURNS)]
        sql, python = (median(turn[at] for turn in turns) for at in (0, 1))
        results.append(Result(f"{case.name}: calls in SQL (A)", sql, "µs/row", "lower"))
        results.append(Result(f"{case.name}: calls in Python (B)", python, "µs/row", "lower"))
        ratio = median(turn[0] / turn[1] for turn in turns)
        results.append(Result(f"{case.name}: SQL / Python", ratio, "times", "lower", aim=1.2))
        _plot(OUT.with_name(f"esl_{case.name}.svg"), curves, "rows of the window", "µs a row")
    slides = [1, 10, 100, 1_000, 10_000, 40_000]
    panes = {slide: _slide(slide, panes=True) for slide in slides}
    plain = {slide: _slide(slide, panes=False) for slide in slides}
    for slide in slides:
        for name, figures in (("panes", panes), ("delta", plain)):
            results.append(Result(f"slide {slide}, {name}: throughput", figures[slide][0], "rows/s"))
            results.append(Result(f"slide {slide}, {name}: state", figures[slide][1], "rows", "lower"))
    for at, name, unit in ((0, "throughput", "rows/s"), (1, "state", "rows kept")):
        lines = {label: [(s, f[s][at]) for s in slides] for label, f in (("panes", panes), ("delta", plain))}
        _plot(OUT.with_name(f"esl_slide_{name}.svg"), lines, "slide", unit)
    turns = [(_group_by(written=True), _group_by(written=False)) for _ in range(TURNS)]
    sql, built_in = (median(turn[at] for turn in turns) for at in (0, 1))
    results.append(Result("sum in GROUP BY, SQL", sql, "µs/row", "lower"))
    results.append(Result("sum in GROUP BY, built in", built_in, "µs/row", "lower"))
    ratio = median(turn[0] / turn[1] for turn in turns)
    results.append(Result("sum in GROUP BY: SQL / built in", ratio, "times", "lower", aim=3.0))
    write_report(OUT, results)


def _cases() -> tuple[Case, ...]:
    known = AggregateLookup(Catalog())
    average, frequency = known.base("avg", (pa.int64(),)), known.base("approx_frequency", (pa.int64(),))
    assert average is not None and frequency is not None
    return Case("average", average, Average), Case("frequency", frequency, Frequency)


def _rows(low: int, high: int) -> Delta:
    numbers = np.arange(low, high)
    return Delta(
        pl.DataFrame(
            {
                "x": numbers * 7919 % 1009,
                FROM: numbers,
                TO: np.full(len(numbers), FOREVER),
                WEIGHT: np.ones(len(numbers), np.int64),
                ORDER: numbers,
            }
        )
    )


def _stepped(
    operators: Sequence[StreamFold],
    rows: int,
    measured: int = MEASURED,
    filling: Sequence[StreamFold] = (),
) -> tuple[float, list[Any]]:
    """The seconds for the last `measured` rows, and the states at the end. Operators `filling`, which have the same
    states, may process the rows before them."""
    states: list[tuple[State, ...]] = [operator.traces() for operator in operators]
    type_ = polars_schema(operators[0].schema)["x"]
    at, start, seconds = 0, BEGINNING, 0.0
    while at < rows + measured:
        last = at >= rows
        size = min(BATCH, rows + measured - at) if last else min(5 * BATCH, rows - at)
        delta = Delta(_rows(at, at + size).frame.with_columns(pl.col("x").cast(type_)))
        begun = time.perf_counter()
        for number, operator in enumerate(operators if last or not filling else filling):
            step = operator.step(delta, states[number], Move(start, at + size))
            delta, states[number] = step.delta, step.traces
        seconds += time.perf_counter() - begun if last else 0.0
        at, start = at + size, at + size
    return seconds, states


def _fold(base: Definition | None, window: Definition | None, frame: Frame, argument: str = "x") -> StreamFold:
    call = chosen("v" if argument == "x" else "w", base, window, (argument,), frame)
    schema = _schema(call.definition) if argument == "x" else SCHEMA.append(pa.field(argument, pa.int64()))
    return StreamFold((), (call,), frame, schema)


def _schema(definition: Definition) -> pa.Schema:
    return pa.schema([("x", definition.parameters[0][1])])


def _delta(case: Case, size: int) -> float:
    seconds, _ = _stepped([_fold(case.definition, None, Frame("rows", size))], size)
    return seconds / MEASURED * 1e6


def _naive(case: Case, size: int) -> float:
    measured = max(20, min(MEASURED, 1_000_000 // size))
    again = over_window(case.definition)
    folds = [
        StreamFold((), (FoldCall("v", again, ("x",), "delta", ends),), Frame("rows", size), _schema(again))
        for ends in (True, False)
    ]
    seconds, _ = _stepped(folds[:1], size, measured, folds[1:])
    return seconds / measured * 1e6


def _own_window(size: int) -> float:
    definition = definition_of(DefinitionText(OWN_WINDOW.strip()), None)
    count = size + MEASURED
    x = pl.Series(np.arange(count) * 7919 % 1009)
    arguments = (x, pl.Series(np.full(count, size)))
    groups = empty_groups(definition, 1)
    fill = Events(np.array([size]), np.full(size, COME), tuple(column[:size] for column in arguments))
    run(definition, fill, groups)
    rest = Events(np.array([MEASURED]), np.full(MEASURED, COME), tuple(column[size:] for column in arguments))
    begun = time.perf_counter()
    run(definition, rest, groups)
    return (time.perf_counter() - begun) / MEASURED * 1e6


def _calls(case: Case, size: int = 1_000) -> tuple[float, float]:
    """µs a row of the calls alone, in SQL and in Python: each time a row leaves, one enters, and the value is read."""
    values = (np.arange(size + MEASURED) * 7919 % 1009).tolist()
    fill = Events(np.array([size]), np.full(size, COME), (pl.Series(values[:size]),))
    pairs = [value for old, new in zip(values, values[size:], strict=False) for value in (old, new)]
    code = np.tile([LEAVE, COME | END], MEASURED)
    groups = empty_groups(case.definition, 1)
    run(case.definition, fill, groups)
    events = Events(np.array([len(pairs)]), code, (pl.Series(pairs),))
    begun = time.process_time()
    made = run(case.definition, events, groups)
    sql = time.process_time() - begun
    own = case.python()
    for value in values[:size]:
        own.iterate(value)
    begun = time.process_time()
    results, at = [], []
    for number, (kind, value) in enumerate(zip(code.tolist(), pl.Series(pairs).to_list(), strict=True)):
        if kind == LEAVE:
            own.expire(value)
        else:
            own.iterate(value)
            results.append(own.terminate())
            at.append(number)
    python = time.process_time() - begun
    assert results == made.values
    return sql / MEASURED * 1e6, python / MEASURED * 1e6


def _slide(slide: int, *, panes: bool) -> tuple[float, float]:
    """Rows a second, and the number of rows in the state."""
    base = AggregateLookup(Catalog()).base("sum", (pa.int64(),))
    frame = Frame("rows", WINDOW, slide)
    pane = np.gcd(WINDOW, slide) if panes else 1
    operators = [_fold(base, None, frame)]
    if pane > 1:
        whole = Frame("rows", WINDOW // pane, None if slide == pane else slide // pane)
        operators = [_fold(base, None, Frame("rows", int(pane), int(pane))), _fold(base, None, whole, "v")]
    measured = 2 * WINDOW
    seconds, states = _stepped(operators, WINDOW, measured)
    kept = sum(run_.height for state in states for trace in state for run_ in trace.runs)
    return measured / seconds, kept


def _group_by(*, written: bool, groups: int = 1_000, count: int = 200_000) -> float:
    """µs a row of a sum by key, in batches of `BATCH` rows. `written` selects the sum written in SQL."""
    schema = pa.schema([("k", pa.int64()), ("x", pa.int64())])
    definition = AggregateLookup(Catalog()).base("sum", (pa.int64(),))
    assert definition is not None
    sql = Aggregate("v", "sum@", ("x",), result_type(definition), True, definition=definition)
    operator = GroupBy(
        ("k",), (sql if written else Aggregate("v", "sum", ("x",), pa.decimal128(38)),), schema, None, True
    )
    states: Any = operator.traces()
    seconds, start = 0.0, BEGINNING
    for low in range(0, count, BATCH):
        frame = _rows(low, low + BATCH).frame.with_columns((pl.col(ORDER) * 31 % groups).alias("k"))
        begun = time.process_time()
        step = operator.step(Delta(frame.select("k", "x", FROM, TO, WEIGHT, ORDER)), states, Move(start, low + BATCH))
        seconds += time.process_time() - begun
        states, start = step.traces, low + BATCH
    return seconds / count * 1e6


def _plot(path: Path, lines: dict[str, list[tuple[int, float]]], across: str, up: str) -> None:
    mpl.rcParams["svg.hashsalt"] = "esl"
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    for name, points in lines.items():
        axes.plot([x for x, _ in points], [y for _, y in points], marker="o", label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.legend()
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
