"""Built-in aggregates, written again in SQL, give the built-in results on any history, retractions included."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.model.catalog import Catalog
from dsms.sql.binder.aggregates.defined_aggregates import AggregateLookup, DefinitionText, definition_of
from operators.aggregates import AGGREGATES
from operators.aggregates.aggregate import Aggregate
from operators.aggregates.user_defined import folded, result_type
from operators.core.delta import BEGINNING, FROM, WEIGHT, Delta
from operators.core.operator import Move
from operators.grouping.group_by import GroupBy
from operators.user_aggregates.definition import Definition

SCHEMA = pa.schema([("k", pa.string()), ("x", pa.int64())])
#: Sums of squares of small integers are exact, so both ways to compute a variance give the same value.
VARIANCE = """
CREATE AGGREGATE spread(x BIGINT): DOUBLE {
  TABLE state(n BIGINT, s BIGINT, q BIGINT);
  INITIALIZE: { INSERT INTO state VALUES (0, 0, 0);
    UPDATE state SET n = 1, s = x, q = x * x WHERE x IS NOT NULL; }
  ITERATE: { UPDATE state SET n = n + 1, s = s + x, q = q + x * x WHERE x IS NOT NULL; }
  TERMINATE: { INSERT INTO RETURN SELECT CASE WHEN n > 0 THEN
    (CAST(n * q - s * s AS DOUBLE)) / (CAST(n AS DOUBLE) * n) END FROM state; }
  EXPIRE: { UPDATE state SET n = n - 1, s = s - x, q = q - x * x WHERE x IS NOT NULL; }
}
"""
#: The number of distinct values; each group has a table of its values, which are found by an index.
DISTINCT = """
CREATE AGGREGATE kinds(x BIGINT): BIGINT {
  TABLE seen(value BIGINT, copies BIGINT);
  INITIALIZE: ITERATE: {
    UPDATE seen SET copies = copies + 1 WHERE value = x;
    INSERT INTO seen VALUES (x, 1) WHERE x IS NOT NULL AND NOT EXISTS (SELECT value FROM seen WHERE value = x);
  }
  TERMINATE: { INSERT INTO RETURN SELECT count(*) FROM seen; }
  EXPIRE: {
    UPDATE seen SET copies = copies - 1 WHERE value = x;
    DELETE FROM seen WHERE copies = 0;
  }
}
"""


def definition(name: str) -> Definition:
    texts = {"var_pop": VARIANCE, "count_distinct": DISTINCT}
    if name in texts:
        return definition_of(DefinitionText(texts[name].strip()), None)
    found = AggregateLookup(Catalog()).base(name, (pa.int64(),))
    assert found is not None
    return found


def written(name: str) -> Aggregate:
    own = definition(name)
    return Aggregate("v", f"{name}@", ("x",), result_type(own), True, definition=own)


def built_in(name: str) -> Aggregate:
    distinct = name == "count_distinct"
    function = "count" if distinct else name
    type_ = AGGREGATES[function].result((pa.int64(),))
    return Aggregate("v", function, ("x",), type_, AGGREGATES[function].nullable, distinct=distinct)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, dict[str, object], int]]:
    """Insertions, and retractions of present rows."""
    changes: list[tuple[str, dict[str, object], int]] = []
    present: list[dict[str, object]] = []
    at = 0
    for _ in range(draw(st.integers(0, 25))):
        at += draw(st.integers(0, 2))
        if present and draw(st.booleans()):
            changes.append(("-", present.pop(draw(st.integers(0, len(present) - 1))), at))
        else:
            row: dict[str, object] = {
                "k": draw(st.sampled_from(["a", "b", None])), "x": draw(st.one_of(st.none(), st.integers(-3, 3)))
            }  # fmt: skip
            present.append(row)
            changes.append(("+", row, at))
    return changes


def changes_of(
    aggregate: Aggregate, keys: tuple[str, ...], changes: list[tuple[str, dict[str, object], int]], cuts: list[int]
) -> list[tuple[object, ...]]:
    """The changes of the groups: the key, the value, the instant and the weight.

    NULL is replaced by 0 for counts: of a group without rows, the built-in count is 0, but no body is called.
    """
    none = 0.0 if aggregate.function.startswith("count") else -999.0
    operator = GroupBy(keys, (aggregate,), SCHEMA, append_only=all(sign == "+" for sign, _, _ in changes))
    traces, start, deltas = operator.traces(), BEGINNING, []
    delta = Delta.of(changes, SCHEMA)
    for end in [*sorted(set(cuts)), 60]:
        step = operator.step(delta.between(start, end), traces, Move(start, end))
        traces, start = step.traces, end
        deltas.append(step.delta.frame.with_columns(pl.col("v").cast(pl.Float64).fill_null(none)))
    whole = Delta(pl.concat(deltas)).consolidate().frame
    return sorted(whole.select(*keys, "v", FROM, WEIGHT).rows(), key=repr)


@pytest.mark.parametrize("name", ["sum", "count", "avg", "min", "max", "var_pop", "count_distinct"])
@settings(max_examples=15)
@given(histories(), st.booleans(), st.lists(st.integers(0, 50), max_size=4))
def test_the_same_aggregate_in_sql(
    name: str, changes: list[tuple[str, dict[str, object], int]], keyed: bool, cuts: list[int]
) -> None:
    keys = ("k",) if keyed else ()
    assert changes_of(written(name), keys, changes, cuts) == changes_of(built_in(name), keys, changes, [])


def test_only_aggregates_with_an_inverse_fold_retractions() -> None:
    assert folded(written("avg"), append_only=False) is not None
    assert folded(written("count_distinct"), append_only=False) is not None
    assert folded(written("min"), append_only=True) is not None
    assert folded(written("min"), append_only=False) is None


@pytest.mark.parametrize("name", ["avg", "min", "var_pop", "count_distinct"])
def test_a_long_history_in_steps_of_one_instant(name: str) -> None:
    """Each row leaves seven instants after it has entered."""
    changes: list[tuple[str, dict[str, object], int]] = []
    for at in range(50):
        changes += [("-", {"k": "abc"[(at - 7) % 3], "x": (at - 7) * 5 % 4}, at)] if at >= 7 else []
        changes.append(("+", {"k": "abc"[at % 3], "x": at * 5 % 4}, at))
    own, theirs = (changes_of(written(name), ("k",), changes, cuts) for cuts in (list(range(1, 55)), []))
    assert own == theirs == changes_of(built_in(name), ("k",), changes, [])
