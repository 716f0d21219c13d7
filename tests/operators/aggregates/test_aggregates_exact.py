"""Exact sums: large integers and decimals, infinities that come and go; and the registry of aggregates."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from decimal import Context, Decimal
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.aggregates import AGGREGATES
from operators.aggregates.aggregate import Aggregate
from operators.aggregates.function import Use
from operators.core.delta import FROM, WEIGHT
from operators.core.errors import UserError
from operators.grouping.group_by import GroupBy
from tests.operators.group_histories import delta_of, run
from tests.support.strategies import examples

WIDE = Context(prec=80)


def last_value(function: str, type_: pa.DataType, values, deleted=()):
    """The aggregate of a column after insertions of the values, one at each instant, and the deletions."""
    schema = pa.schema([("k", pa.string()), ("x", type_)])
    result = AGGREGATES[function].result((type_,))
    changes = [(("a", value), at, 1, at) for at, value in enumerate(values)]
    changes += [(("a", value), 6 + at, -1, 6 + at) for at, value in enumerate(deleted)]
    group = GroupBy(("k",), (Aggregate("r", function, ("x",), result),), schema)
    cuts = [3, 6, 7]
    output, faults = run(group, delta_of(changes, schema), cuts)
    assert not faults.height
    states = output.filter(output[WEIGHT] > 0).sort(FROM)["r"].to_list()
    return states[-1]


GREAT = [9_000_000_000_000_001, 9_000_000_000_000_003, 9_000_000_000_000_008, -5]


@pytest.mark.parametrize("values", [GREAT[:3], GREAT, [2**62, -(2**62), 7], [1, 0, 0]])
def test_variance_of_integers_is_exact(values) -> None:
    assert last_value("var_pop", pa.int64(), values) == float(statistics.pvariance(map(Fraction, values)))


def test_variance_of_decimals_is_exact() -> None:
    values = [Decimal("99999999999.01"), Decimal("99999999999.02"), Decimal("99999999999.06")]
    variance = last_value("var_samp", pa.decimal128(20, 2), values)
    assert variance == pytest.approx(float(statistics.variance(map(Fraction, values))), rel=1e-14)


LONG = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(2**63 - 5, 2**63 - 1),
    pa.decimal128(18, 3): st.decimals("-999999999999999", "999999999999999", places=3),
    pa.decimal128(38, 0): st.integers(1 - 10**38, 10**38 - 1).map(Decimal) | st.integers(-9, 9).map(Decimal),
    pa.decimal128(38, 30): st.decimals("-9999999", "9999999", places=2),
}


@pytest.mark.parametrize("type_", LONG, ids=str)
@given(st.data())
def test_variance_of_long_numbers_is_exact(type_, data) -> None:
    values = data.draw(st.lists(LONG[type_], min_size=1, max_size=5))
    taken = data.draw(st.lists(st.sampled_from(values), unique=True, max_size=len(set(values)) - 1))
    left = [Fraction(value) for value in values]
    for value in taken:
        left.remove(Fraction(value))
    expected = pytest.approx(float(statistics.pvariance(left)), rel=1e-14)
    assert last_value("var_pop", type_, values, taken) == expected


NUMBERS = {**LONG, pa.int16(): st.integers(-(2**15), 2**15 - 1), pa.decimal128(9, 0): st.integers(0, 9).map(Decimal)}


@pytest.mark.parametrize("x", NUMBERS, ids=str)
@pytest.mark.parametrize("y", NUMBERS, ids=str)
@settings(max_examples=examples(8))
@given(st.data())
def test_covariances_and_means_of_pairs_are_exact(x, y, data) -> None:
    schema = pa.schema([("k", pa.string()), ("x", x), ("y", y)])
    rows = data.draw(st.lists(st.tuples(st.just("a"), NUMBERS[x], NUMBERS[y]), min_size=1, max_size=5))
    functions = {"covar_pop": ("x", "y"), "regr_sxy": ("y", "x"), "regr_avgx": ("y", "x"), "regr_avgy": ("y", "x")}
    calls = tuple(Aggregate(name, name, columns, pa.float64()) for name, columns in functions.items())
    output, _ = run(
        GroupBy(("k",), calls, schema), delta_of([(row, 0, 1, at) for at, row in enumerate(rows)], schema), []
    )
    xs, ys = ([Fraction(row[at]) for row in rows] for at in (1, 2))
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    total = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    (found,) = output.select(list(functions)).rows()
    exact = total / len(xs), total, mean_x, mean_y
    assert found == tuple(pytest.approx(float(value), rel=1e-14) for value in exact)


def test_sums_of_short_pairs_are_stored_as_before() -> None:
    """Their stored state has no new version, so its columns must keep their names and order."""
    parts = AGGREGATES["covar_pop"].method.parts(Use(("x", "y"), (pa.int32(), pa.int16()), pa.float64()))
    sums = [f"sum of {each} (x,y)" for each in ("x", "y", "x*x", "x*y", "y*y")]
    assert [part.name for part in parts] == ["count(x,y)", *sums] and not any(part.version for part in parts)


def test_a_mean_of_decimals_whose_sum_exceeds_128_bits() -> None:
    values = [Decimal("9" * 37 + ".9"), Decimal("7" * 37 + ".5"), Decimal("9" * 37 + ".8")]
    for signed in (values, [value.copy_negate() for value in values]):
        expected = float(sum(map(Fraction, signed)) / 3)
        assert last_value("avg", pa.decimal128(38, 1), signed) == pytest.approx(expected, rel=1e-15)


def test_a_decimal_sum_has_38_digits() -> None:
    values = [Decimal("9" * 35 + ".123"), Decimal("-1.001"), Decimal("0.500")]
    assert last_value("sum", pa.decimal128(38, 3), values) == Decimal("9" * 34 + "8.622")


@pytest.mark.parametrize("scale", [0, 3])
def test_a_decimal_sum_of_39_digits_is_a_fault(scale) -> None:
    type_ = pa.decimal128(38, scale)
    schema = pa.schema([("k", pa.string()), ("x", type_)])
    most = Decimal("9" * (38 - scale) + "." + "9" * scale)
    changes = [(("a", most), at, 1, at) for at in (1, 2, 3, 4)] + [
        (("a", most), 4 + at, -1, 4 + at) for at in (1, 2, 3)
    ]
    group = GroupBy(("k",), (Aggregate("r", "sum", ("x",), type_),), schema)
    output, faults = run(group, delta_of(changes, schema), [2, 3, 6])
    assert output.select("r", FROM, WEIGHT).sort(FROM).rows() == [(most, 1, 1), (most, 2, -1), (most, 7, 1)]
    assert faults[FROM].to_list() == [2]


@pytest.mark.parametrize("wild", [[math.inf], [math.nan], [math.inf, -math.inf], [-math.inf, math.nan]])
def test_retracted_infinities_do_not_affect_the_sum(wild) -> None:
    assert last_value("sum", pa.float64(), [1.5, *wild, 2.25], wild) == 3.75


def test_infinities_add_up() -> None:
    assert last_value("sum", pa.float64(), [1.5, math.inf]) == math.inf
    assert math.isnan(last_value("avg", pa.float64(), [math.inf, -math.inf]))


def test_a_float_sum_begins_again_when_nothing_is_left() -> None:
    assert last_value("sum", pa.float64(), [1e17, 1.0, None], [1e17, 1.0]) is None
    schema = pa.schema([("k", pa.string()), ("x", pa.float64())])
    changes = [(("a", None), 0, 1, 0), (("a", 1e17), 1, 1, 1), (("a", 0.3), 2, 1, 2), (("a", 1e17), 3, -1, 3)]
    changes += [(("a", 0.3), 4, -1, 4), (("a", 0.1), 5, 1, 5)]
    group = GroupBy(("k",), (Aggregate("r", "sum", ("x",), pa.float64()),), schema)
    for cuts in ([], [3], [4, 5]):
        output, _ = run(group, delta_of(changes, schema), cuts)
        assert output.filter(output[WEIGHT] > 0).sort(FROM)["r"].to_list()[-2:] == [None, 0.1]


def test_an_infinite_neighbour_of_a_percentile() -> None:
    assert last_value("median", pa.float64(), [-math.inf, 1.0]) == -math.inf
    assert math.isnan(last_value("median", pa.float64(), [-math.inf, math.inf]))


@pytest.mark.parametrize("name", AGGREGATES)
def test_every_function_is_documented_and_refuses_too_many_arguments(name) -> None:
    function = AGGREGATES[name]
    assert function.summary.endswith(".")
    with pytest.raises(UserError, match="takes"):
        function.result((pa.int64(),) * 65)


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [
        ("sum", (pa.int8(),), pa.int64()),
        ("sum", (pa.decimal128(9, 2),), pa.decimal128(38, 2)),
        ("sum", (pa.float32(),), pa.float64()),
        ("mean", (pa.decimal128(9, 2),), pa.float64()),
        ("count", (), pa.int64()),
        ("max", (pa.date32(),), pa.date32()),
        ("max_by", (pa.string(), pa.int8()), pa.string()),
        ("array_agg", (pa.int8(),), pa.list_(pa.int8())),
        ("median", (pa.date32(),), pa.timestamp("us")),
    ],
)
def test_types_of_results(name, arguments, result) -> None:
    assert AGGREGATES[name].result(arguments) == result


@pytest.mark.parametrize(
    ("name", "types"), [("sum", (pa.string(),)), ("bool_and", (pa.int8(),)), ("string_agg", (pa.int8(),))]
)
def test_types_that_are_refused(name, types) -> None:
    with pytest.raises(UserError, match=f'"{name}" does not take'):
        AGGREGATES[name].result(types)


COPIES = st.lists(
    st.tuples(st.sampled_from([0.1, 0.7, -0.07, 1e16]), st.integers(1, 5), st.integers(1, 3), st.integers(1, 6)),
    min_size=1,
    max_size=6,
    unique_by=lambda row: (row[0], row[1], row[2]),
)


@pytest.mark.parametrize("function", ["sum", "avg", "var_pop"])
@given(COPIES, st.data())
def test_division_of_copies_among_elements_changes_no_aggregate(function: str, copies, data) -> None:
    schema = pa.schema([("k", pa.string()), ("x", pa.float64())])
    group = GroupBy(("k",), (Aggregate("r", function, ("x",), pa.float64()),), schema)
    whole = [(("a", value), at, count, order) for value, at, order, count in copies]
    divided = []
    for row, at, count, order in whole:
        first = data.draw(st.integers(1, count))
        divided += [(row, at, part, order) for part in (first, *[1] * (count - first))]
    shuffled = data.draw(st.permutations(divided))
    undivided, in_parts = (run(group, delta_of(changes, schema), [3])[0] for changes in (whole, shuffled))
    assert undivided.sort(FROM, WEIGHT).equals(in_parts.sort(FROM, WEIGHT))


FILTERED = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.sampled_from([0.1, 0.7, -0.07, 1e16, -0.0, math.inf]),
        st.sampled_from([True, False, None]),
        st.booleans(),
        st.integers(1, 4),
        st.integers(1, 2),
        st.integers(1, 2),
        st.booleans(),
    ),
    min_size=1,
    max_size=8,
)


@given(FILTERED, st.sampled_from([[], [2], [1, 3]]))
def test_sums_of_a_group_do_not_depend_on_other_rows(drawn, cuts) -> None:
    columns = [("k", pa.string()), ("x", pa.float64()), ("f", pa.bool_()), ("g", pa.bool_())]
    changes = []
    for k, x, f, g, at, count, order, leaves in drawn:
        changes.append(((k, x, f, g), at, count, order))
        changes += [((k, x, f, g), at + 2, -count, order + 2)] if leaves else []
    asked = [(function, column) for function in ("sum", "var_pop", "count") for column in ("", "f", "g")]
    types = {"sum": pa.float64(), "var_pop": pa.float64(), "count": pa.int64()}
    together = GroupBy(
        ("k",),
        tuple(Aggregate(f + by, f, ("x",), types[f], filter=by or None) for f, by in asked),
        pa.schema(columns),
    )
    beside, _ = run(together, delta_of(changes, together.schema), cuts)
    for function, by in asked:
        alone = GroupBy(("k",), (Aggregate("r", function, ("x",), types[function]),), together.schema)
        kept = [change for change in changes if not by or change[0]["kxfg".index(by)]]
        separate, _ = run(alone, delta_of(kept, alone.schema), cuts)
        for at in range(1, 8):
            actual, expected = at_instant(beside, function + by, at), at_instant(separate, "r", at)
            nothing = 0 if function == "count" else None
            assert {k: repr(value) for k, value in actual.items()} == {
                k: repr(expected.get(k, nothing)) for k in actual
            }


def at_instant(output, name: str, at: int) -> dict[str, object]:
    """The value of each group at an instant."""
    rows = output.filter(output[FROM] <= at).select("k", name, WEIGHT).rows()
    there = Counter[tuple[str, str]]()
    values = {}
    for k, value, weight in rows:
        there[k, repr(value)] += weight
        values[k, repr(value)] = value
    return {k: values[k, text] for (k, text), weight in there.items() if weight}
