"""StreamFold, compared with recomputation of every window, for any cuts, by explicit and derived definitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.model.catalog import Catalog
from dsms.sql.binder.aggregates.defined_aggregates import AggregateLookup
from operators.core.delta import BEGINNING, FOREVER, FROM, ORDER, TO, WEIGHT, Delta
from operators.core.operator import Move
from operators.user_aggregates.fold_plan import Frame, chosen
from operators.user_aggregates.stream_fold import StreamFold

Row = tuple[str, int | None, int]
Result = tuple[str, int | None, int, float | None]
Value = Callable[[Sequence[int | None]], float | None]
SCHEMA = pa.schema([("k", pa.string()), ("x", pa.int64())])
END = 200


def present(values: Sequence[int | None]) -> list[int]:
    return [value for value in values if value is not None]


EXPECTED: dict[str, Value] = {
    "sum": lambda values: sum(present(values)) if present(values) else None,
    "count": lambda values: len(present(values)),
    "avg": lambda values: sum(present(values)) / len(present(values)) if present(values) else None,
    "min": lambda values: min(present(values), default=None),
    "max": lambda values: max(present(values), default=None),
}
FRAMES = st.one_of(
    st.builds(lambda n, m: Frame("rows", n, m), st.integers(1, 6), st.one_of(st.none(), st.integers(1, 8))),
    st.builds(lambda n, m: Frame("range", n, m), st.integers(0, 9), st.one_of(st.none(), st.integers(1, 9))),
    st.builds(lambda n: Frame("range", n, active=True), st.integers(0, 9)),
    st.just(Frame("rows", None)),
)
HISTORIES = st.lists(
    st.tuples(st.sampled_from("ab"), st.one_of(st.none(), st.integers(-5, 5)), st.integers(0, 4)), max_size=25
).map(lambda steps: [(k, x, sum(step for _, _, step in steps[: at + 1])) for at, (k, x, _) in enumerate(steps)])


def fold(name: str, frame: Frame, *, derived: bool = False) -> StreamFold:
    known, types = AggregateLookup(Catalog()), (pa.int64(),)
    window = None if derived else known.window(name, types)
    call = chosen("v", known.base(name, types), window, ("x",), frame)
    return StreamFold(("k",), (call,), frame, SCHEMA)


def run(operator: StreamFold, rows: Sequence[Row], cuts: Sequence[int]) -> list[Result]:
    delta = Delta.of([("+", {"k": k, "x": x}, at) for k, x, at in rows], SCHEMA)
    traces, start = operator.traces(), BEGINNING
    results: list[Result] = []
    for end in [*sorted(set(cuts)), END]:
        step = operator.step(delta.between(start, end), traces, Move(start, end))
        traces, start = step.traces, end
        made = step.delta.frame.sort(FROM, ORDER)
        assert ((made[FROM] >= start - END) & (made[FROM] < end)).all()
        results += made.select("k", "x", FROM, "v").rows()
    return results


def instants(rows: dict[str, list[Any]], at: Sequence[int]) -> Delta:
    reserved = {FROM: list(at), TO: FOREVER, WEIGHT: 1, ORDER: list(at)}
    return Delta(pl.DataFrame({**rows, **reserved}, schema_overrides=dict.fromkeys(reserved, pl.Int64)))


def held_rows(traces: Sequence[Any]) -> int:
    return sum(run.height for trace in traces for run in trace.runs)


def expected(rows: Sequence[Row], frame: Frame, value: Value) -> list[Result]:
    """The result of each row; with a slide, the result of each yield row or slot."""
    seen: dict[str, list[Row]] = defaultdict(list)
    results: list[Result] = []
    last: dict[tuple[str, int], Result] = {}
    for k, x, at in rows:
        seen[k].append((k, x, at))
        window = [
            value_
            for _, value_, then in seen[k]
            if frame.kind == "rows" or frame.length is None or then >= at - frame.length
        ]
        window = window[-frame.length :] if frame.kind == "rows" and frame.length is not None else window
        if frame.slide is None or frame.kind == "rows" and len(seen[k]) % frame.slide == 0:
            results.append((k, x, at, value(window)))
        elif frame.kind == "range":
            slot = -(-at // frame.slide) * frame.slide
            last[k, slot] = (k, x, slot, value(window))
    return results + list(last.values())


@settings(max_examples=60)
@given(HISTORIES, FRAMES, st.sampled_from(sorted(EXPECTED)), st.booleans(), st.lists(st.integers(0, 110), max_size=4))
def test_every_window_equals_recomputation(
    rows: list[Row], frame: Frame, name: str, derived: bool, cuts: list[int]
) -> None:
    operator = fold(name, frame, derived=derived)
    results = run(operator, rows, cuts)
    if frame.active:
        assert sorted(results, key=repr) == sorted(active(rows, frame, name, derived), key=repr)
    else:
        assert sorted(results, key=repr) == sorted(expected(rows, frame, EXPECTED[name]), key=repr)


def active(rows: Sequence[Row], frame: Frame, name: str, derived: bool) -> list[Result]:
    """The result of each row and, with a base definition, that of the remaining rows, if any, when a row leaves."""
    results = expected(rows, Frame("range", frame.length), EXPECTED[name])
    if not derived and name in ("min", "max"):
        return results  # their window definitions return nothing in EXPIRE
    assert frame.length is not None
    for key in "ab":
        own = [row for row in rows if row[0] == key]
        for at, (k, x, then) in enumerate(own):
            gone = then + frame.length + 1
            remain = [value for _, value, since in own[at + 1 :] if since < gone]
            if remain:
                results.append((k, x, gone, EXPECTED[name](remain)))
    return results


@settings(max_examples=40)
@given(HISTORIES, FRAMES, st.sampled_from(["min", "max"]), st.lists(st.integers(0, 110), max_size=4))
def test_a_derived_version_equals_the_explicit_one(rows: list[Row], frame: Frame, name: str, cuts: list[int]) -> None:
    plain = Frame(frame.kind, frame.length, frame.slide)
    assert run(fold(name, plain, derived=True), rows, cuts) == run(fold(name, plain), rows, [])


@pytest.mark.parametrize(("frame", "mode"), [(Frame("rows", 4, 9), "tumble"), (Frame("rows", 9, 4), "delta")])
def test_a_tumble_reads_only_the_end_of_each_slot(frame: Frame, mode: str) -> None:
    assert fold("sum", frame).calls[0].mode == mode


@pytest.mark.parametrize("frame", [Frame("range", 5, 4), Frame("range", 5, active=True), Frame("rows", 6)], ids=str)
def test_a_long_history_in_steps_of_one_instant(frame: Frame) -> None:
    """Traces keep past rows for a while; no row is used twice."""
    rows: list[Row] = [("abc"[at * 7 % 3], at * 5 % 9, at // 2) for at in range(120)]
    whole, stepwise = (sorted(run(fold("sum", frame), rows, cuts), key=repr) for cuts in ([], range(1, 80)))
    assert stepwise == whole


@pytest.mark.parametrize(
    "frame", [Frame("range", 50), Frame("range", 50, 20), Frame("range", 50, active=True)], ids=str
)
@pytest.mark.parametrize(("name", "derived"), [("sum", False), ("min", False), ("min", True)])
def test_keys_that_never_return_are_forgotten_after_their_window(frame: Frame, name: str, derived: bool) -> None:
    operator = fold(name, frame, derived=derived)
    traces, most, results = operator.traces(), 0, 0
    for start in range(0, 5_000, 200):
        rows = {"k": [f"k{at}" for at in range(start, start + 200)], "x": [1] * 200}
        step = operator.step(instants(rows, range(start, start + 200)), traces, Move(start, start + 200))
        traces, results = step.traces, results + len(step.delta)
        most = max(most, held_rows(traces))
    assert results >= 4_980
    assert most <= 1_800, "5 000 keys came once, 250 were in a window or a slot at one time"
    step = operator.step(instants({"k": ["k"], "x": [1]}, [99_999]), traces, Move(5_000, 100_000))
    assert held_rows(step.traces) <= 20


def test_a_step_without_rows_forgets_too() -> None:
    operator = fold("sum", Frame("range", 5))
    step = operator.step(Delta.of([("+", {"k": "a", "x": 1}, 3)], SCHEMA), operator.traces(), Move(0, 4))
    assert held_rows(step.traces) == 3, "the group, its row and when it ends"
    step = operator.step(Delta.of([], SCHEMA), step.traces, Move(4, 9))
    assert not step.traces[0].lookup(pl.DataFrame({"k": ["a"]})).is_empty()
    step = operator.step(Delta.of([], SCHEMA), step.traces, Move(9, 10))
    assert held_rows(step.traces) == 0
