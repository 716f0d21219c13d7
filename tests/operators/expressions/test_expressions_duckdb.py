"""Random typed expressions over random rows: value and fault are those of DuckDB, row by row."""

import math

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from operators.expressions import Call, Column, Expression, Literal, call, cast, evaluate, to_sql
from tests.support import duck_engine
from tests.support.strategies import examples

COLUMNS = {"i": pa.int32(), "j": pa.int64(), "k": pa.int16(), "f": pa.float64(), "s": pa.string(), "b": pa.bool_()}
SCHEMA = pa.schema(COLUMNS)
VALUES = {
    "i": st.sampled_from([None, 0, 1, -1, 7, -(2**31), 2**31 - 1]),
    "j": st.sampled_from([None, 0, 2, -3, -(2**63), 2**63 - 1]),
    "k": st.sampled_from([None, 0, 5, -(2**15), 2**15 - 1]),
    "f": st.sampled_from([None, 0.0, 1.5, -2.25, math.nan, math.inf, -math.inf, 1e300]),
    "s": st.sampled_from([None, "", "a", "B", "ab", "é", "12", "-7"]),
    "b": st.sampled_from([None, True, False]),
}
ROWS = st.lists(st.fixed_dictionaries(VALUES), min_size=1, max_size=6)

INTEGERS = st.deferred(lambda: st.one_of(INTEGER_LEAVES, INTEGER_CALLS))
FLOATS = st.deferred(lambda: st.one_of(FLOAT_LEAVES, FLOAT_CALLS))
TEXTS = st.deferred(lambda: st.one_of(TEXT_LEAVES, TEXT_CALLS))
BOOLEANS = st.deferred(lambda: st.one_of(BOOLEAN_LEAVES, BOOLEAN_CALLS))


def columns_of(*names):
    return st.sampled_from([Column(name, COLUMNS[name]) for name in names])


def calls(names, *arguments):
    return st.builds(lambda name, parts: call(name, *parts), st.sampled_from(names), st.tuples(*arguments))


INTEGER_LEAVES = st.one_of(
    columns_of("i", "j", "k"),
    st.sampled_from([Literal(v, pa.int32()) for v in (0, 1, -2, 10)] + [Literal(None, pa.int64())]),
)
FLOAT_LEAVES = st.one_of(columns_of("f"), st.sampled_from([Literal(v, pa.float64()) for v in (0.0, 0.5, -4.0, None)]))
TEXT_LEAVES = st.one_of(columns_of("s"), st.sampled_from([Literal(v, pa.string()) for v in ("", "a", "x1", None)]))
BOOLEAN_LEAVES = st.one_of(columns_of("b"), st.sampled_from([Literal(v, pa.bool_()) for v in (True, False, None)]))


def same_kind(name, count):
    return st.one_of(*(calls([name], *[kind] * count) for kind in (INTEGERS, FLOATS, TEXTS)))


def conditional(kind):
    return st.one_of(
        calls(["case"], BOOLEANS, kind, kind),
        calls(["case"], BOOLEANS, kind, BOOLEANS, kind, kind),
        calls(["coalesce"], kind, kind),
        calls(["coalesce"], kind, kind, kind),
    )


INTEGER_CALLS = st.one_of(
    calls(["add", "subtract", "multiply", "divide", "modulo"], INTEGERS, INTEGERS),
    calls(["negate", "abs"], INTEGERS),
    calls(["length"], TEXTS),
    calls(["strpos"], TEXTS, TEXTS),
    conditional(INTEGERS),
    calls(["nullif"], INTEGERS, INTEGERS),
    calls(["greatest", "least"], INTEGERS, INTEGERS),
    st.builds(lambda x: cast(x, pa.int32()), st.one_of(INTEGERS, FLOATS)),
    st.builds(lambda x, safe: cast(x, pa.int16(), safe=safe), INTEGERS, st.booleans()),
)
FLOAT_CALLS = st.one_of(
    calls(["add", "subtract", "multiply"], FLOATS, FLOATS),
    calls(["add", "multiply"], INTEGERS, FLOATS),
    calls(["negate", "abs", "floor"], FLOATS),
    conditional(FLOATS),
    calls(["greatest", "least"], FLOATS, FLOATS),
    st.builds(lambda x: cast(x, pa.float64()), INTEGERS),
)
POSITIONS = st.one_of(
    st.sampled_from([Literal(1, pa.int64()), Literal(2, pa.int64()), Literal(None, pa.int64())]),
    st.sampled_from([1, 3]).map(lambda n: call("nullif", Literal(n, pa.int64()), Column("j", pa.int64()))),
)
TEXT_CALLS = st.one_of(
    calls(["left", "right", "repeat", "substring"], TEXTS, POSITIONS),
    calls(["split_part"], TEXTS, TEXTS, POSITIONS),
    calls(["substring"], TEXTS, POSITIONS, POSITIONS),
    calls(["concat"], TEXTS, INTEGERS),
    calls(["lower", "upper", "reverse", "trim"], TEXTS),
    calls(["concat_strict"], TEXTS, TEXTS),
    calls(["replace"], TEXTS, TEXTS, TEXTS),
    conditional(TEXTS),
    calls(["nullif"], TEXTS, TEXTS),
    calls(["lpad", "rpad"], TEXTS, st.just(Literal(4, pa.int64())), st.just(Literal("xy", pa.string()))),
    st.builds(lambda x: cast(x, pa.string()), INTEGERS),
)
_COMPARISONS = [
    "equal",
    "not_equal",
    "less",
    "less_or_equal",
    "greater",
    "greater_or_equal",
    "distinct",
    "not_distinct",
]
BOOLEAN_CALLS = st.one_of(
    *(calls(_COMPARISONS, kind, kind) for kind in (INTEGERS, FLOATS, TEXTS)),
    calls(_COMPARISONS, INTEGERS, FLOATS),
    calls(["and", "or"], BOOLEANS, BOOLEANS),
    calls(["and", "or"], BOOLEANS, BOOLEANS, BOOLEANS),
    calls(["not"], BOOLEANS),
    conditional(BOOLEANS),
    calls(["is_null", "is_not_null"], st.one_of(INTEGERS, TEXTS, BOOLEANS)),
    calls(["is_true", "is_false", "is_not_true", "is_not_false"], BOOLEANS),
    calls(["starts_with", "ends_with", "contains", "like"], TEXTS, TEXTS),
    calls(
        ["in"],
        INTEGERS,
        st.just(Literal(1, pa.int32())),
        st.sampled_from([Literal(7, pa.int32()), Literal(None, pa.int32())]),
    ),
)
TREES = st.one_of(INTEGERS, FLOATS, TEXTS, BOOLEANS)


def duckdb_sql(node: Expression) -> str:
    """The tree as SQL for DuckDB, with a cast to the type of every node, and DuckDB's operator for integer division."""
    if not isinstance(node, Call):
        return f"CAST({to_sql(node)} AS {duckdb_type(node.type)})"
    arguments = [duckdb_sql(argument) for argument in node.arguments]
    if node.function in ("lpad", "rpad"):
        arguments[1] = f"CAST({arguments[1]} AS INTEGER)"
    if node.function == "widen":
        return f"CAST({arguments[0]} AS {duckdb_type(node.type)})"
    if node.function == "divide":
        return f"({arguments[0]} // {arguments[1]})"
    names = [f"a{position}" for position in range(len(arguments))]
    template = to_sql(
        Call(
            node.function, tuple(Column(f"@{n}", a.type) for n, a in zip(names, node.arguments, strict=True)), node.type
        )
    )
    for name, argument in zip(names, arguments, strict=True):
        template = template.replace(f'"@{name}"', f"({argument})")
    return f"CAST({template} AS {duckdb_type(node.type)})"


def duckdb_type(type_):
    return {
        "string": "VARCHAR",
        "bool": "BOOLEAN",
        "double": "DOUBLE",
        "int64": "BIGINT",
        "int32": "INTEGER",
        "int16": "SMALLINT",
    }[str(type_)]


CONNECTION = duck_engine.connection()
FAULT = object()


def oracle(node, row):
    """DuckDB's value for one row, or FAULT if it raises.

    DuckDB chooses which operands it evaluates, so `lawful` decides which faults are masked.
    """
    types = ", ".join(f"CAST(${name} AS {duckdb_type(type_)}) AS {name}" for name, type_ in COLUMNS.items())
    try:
        return CONNECTION.execute(f"SELECT {duckdb_sql(node)} FROM (SELECT {types})", row).fetchone()[0]
    except (duckdb.OutOfRangeException, duckdb.ConversionException, duckdb.InvalidInputException):
        return FAULT


def lawful(node, row):
    """The value or FAULT by the law, from DuckDB's values of single functions: operands are evaluated first, and the
    fault of an operand is masked if the others decide the value."""
    if not isinstance(node, Call):
        return oracle(node, row)
    return LAZY.get(node.function, eager)(node, row)


def case(node, row):
    parts = node.arguments
    for when, then in zip(parts[:-1:2], parts[1::2], strict=True):
        condition = lawful(when, row)
        if condition is FAULT:
            return FAULT
        if condition:
            return lawful(then, row)
    return lawful(parts[-1], row)


def coalesce(node, row):
    return next((value for part in node.arguments if (value := lawful(part, row)) is not None), None)


def connective(node, row):
    decides = node.function == "or"
    values = [lawful(part, row) for part in node.arguments]
    if any(value is decides for value in values):
        return decides
    if any(value is FAULT for value in values):
        return FAULT
    return None if None in values else not decides


def eager(node, row):
    values = [lawful(part, row) for part in node.arguments]
    if any(value is FAULT for value in values):
        return None if node.function == "try_cast" else FAULT
    literals = tuple(Literal(value, part.type) for value, part in zip(values, node.arguments, strict=True))
    return oracle(Call(node.function, literals, node.type), row)


LAZY = {"case": case, "coalesce": coalesce, "and": connective, "or": connective}


def same(ours, theirs):
    if isinstance(ours, float) and isinstance(theirs, float):
        return ours == theirs or (math.isnan(ours) and math.isnan(theirs)) or math.isclose(ours, theirs, rel_tol=1e-12)
    return ours == theirs and type(ours) is type(theirs)


@settings(max_examples=examples(50), deadline=None, suppress_health_check=list(HealthCheck))
@given(TREES, ROWS)
def test_values_and_faults_equal_duckdb(node, rows):
    frame = pl.DataFrame(pa.Table.from_pylist(rows, schema=SCHEMA))
    values, faults = evaluate(frame, {"x": node})
    for row, ours, fault in zip(rows, values["x"], faults, strict=True):
        theirs = lawful(node, row)
        if theirs is FAULT:
            assert fault is not None and ours is None, (to_sql(node), row)
        else:
            assert fault is None and same(ours, theirs), (to_sql(node), row, ours, theirs, fault)


@pytest.mark.parametrize("function", ["equal", "not_equal", "less", "less_or_equal", "greater", "greater_or_equal"])
def test_comparison_with_null_is_null_in_every_row(function: str) -> None:
    null = cast(Literal(None, pa.null()), pa.int64())
    compared = call(function, Column("x", pa.int64()), null), call(function, null, Column("x", pa.int64()))
    frame = pl.DataFrame({"x": [1, 2, None]})
    for comparison in compared:
        both = call("and", call("greater", Literal(1, pa.int64()), null), comparison)
        assert evaluate(frame, {"one": comparison, "both": both})[0].to_dict(as_series=False) == {
            "one": [None] * 3,
            "both": [None] * 3,
        }
