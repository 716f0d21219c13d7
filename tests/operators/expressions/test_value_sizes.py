"""No expression creates a value above the bound, for any arguments: the row is in fault before the value exists."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.expressions import FUNCTIONS, LONGEST_CONSTANT, Column, Expression, Literal, call, evaluate, faultless
from operators.expressions.arrow_types import polars_type
from operators.expressions.value_sizes import GROWTH

TEXT, WHOLE = pa.string(), pa.int64()
A, B, N, L = Column("a", TEXT), Column("b", TEXT), Column("n", WHOLE), Column("l", pa.list_(TEXT))
#: Functions that `hostile` does not call: they return numbers, times or one of their arguments.
_PLAIN = {"add_intervals", "case", "date_diff", "date_trunc", "extract", "field", "in_zone", "near_value", "widen"}
MEMORY = 768 << 20


def literal(value: object, kind: pa.DataType = TEXT) -> Literal:
    return Literal(value, kind)


def rows(a: str, b: str, n: int = 0, items: tuple[str, ...] = ()) -> pl.DataFrame:
    """A row of short values, and a row of the given ones."""
    return pl.DataFrame({"a": ["k", a], "b": ["v", b], "n": [1, n], "l": [["i"], list(items)]})


MILLION = "x" * 1_000_000
CASES: list[tuple[str, Expression, pl.DataFrame, str]] = [
    ("concat", call("concat", A, B), rows(MILLION, "y"), "text"),
    ("operator", call("concat_strict", A, B), rows(MILLION, "y"), "text"),
    ("separator", call("concat_ws", A, B, B, B), rows("x" * 400_000, "y"), "text"),
    ("replace", call("replace", A, literal("x"), B), rows("x" * 20_000, "y" * 20_000), "text"),
    ("replace by constants", call("replace", A, literal("x"), literal("y" * 100)), rows("x" * 20_000, ""), "text"),
    (
        "expressions",
        call("regexp_replace", A, literal("x"), literal("y" * 100), literal("g")),
        rows("x" * 20_000, ""),
        "text",
    ),
    (
        "groups",
        call("regexp_replace", A, literal("(x+)"), literal("\\1" * 9), literal("")),
        rows("x" * 200_000, ""),
        "text",
    ),
    ("repeat", call("repeat", A, N), rows("xy", "", 500_001), "text"),
    ("lpad", call("lpad", A, N, B), rows("xy", "z", 1_000_001), "text"),
    ("rpad", call("rpad", A, N, B), rows("xy", "z", 2**62), "text"),
    ("array", call("array", A, B), rows(MILLION, "y"), "array"),
    ("append", call("array_append", L, A), rows("", "", 0, ("",) * 125_000), "array"),
    ("join arrays", call("array_concat", L, L), rows("", "", 0, ("",) * 65_000), "array"),
    ("to string", call("array_to_string", L, A), rows("x" * 1_000, "", 0, ("",) * 2_000), "text"),
    ("split", call("string_to_array", A, literal(",")), rows("," * 200_000, ""), "array"),
    ("struct", call("struct", literal("f"), A, literal("g"), B), rows(MILLION, "y"), "value"),
    ("json", call("json_array", literal("tt"), A, B), rows("x" * 600_000, "y"), "text"),
]


@pytest.mark.parametrize(("expression", "frame", "what"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_only_rows_with_too_long_values_are_in_fault(expression: Expression, frame: pl.DataFrame, what: str) -> None:
    values, faults = evaluate(frame, {"it": expression})
    assert values["it"].is_null().to_list() == [False, True]
    assert faults[0] is None and str(faults[1]).startswith(f"{what} longer than 1000000 bytes")


CONTROLS, FIELD = "\x01" * 20, "f\x01" * 100
PAIR = pa.struct([(FIELD, WHOLE), ("t", TEXT)])


@pytest.mark.parametrize(
    ("kind", "short", "long"),
    [
        (TEXT, CONTROLS, "\x01" * 400_000),
        (pa.list_(TEXT), [CONTROLS], [CONTROLS] * 20_000),
        (pa.list_(PAIR), [{FIELD: 1, "t": "x"}], [{FIELD: 1, "t": "x"}] * 20_000),
        (pa.list_(PAIR), [{FIELD: None, "t": None}], [{FIELD: None, "t": None}] * 20_000),
        (pa.list_(pa.list_(PAIR)), [[{FIELD: 1, "t": "x"}]], [[{FIELD: 1, "t": "x"}] * 20] * 1_000),
    ],
    ids=["text", "texts", "structs", "structs of NULL", "nested arrays"],
)
@pytest.mark.parametrize("function", ["to_json", "json_array", "json_object"])
def test_escapes_and_the_names_of_fields_count_as_parts_of_json(
    function: str, kind: pa.DataType, short: object, long: object
) -> None:
    name = [literal("name")] if function == "json_object" else []
    built = call(function, literal("t" * (len(name) + 1)), *name, Column("a", kind))
    frame = pl.DataFrame({"a": [short, long]}, schema={"a": polars_type(kind)})
    values, faults = evaluate(frame, {"it": built})
    assert values["it"].is_null().to_list() == [False, True]
    assert faults[0] is None and str(faults[1]).startswith("text longer than 1000000 bytes")


ANY_TEXT = st.none() | st.text(st.characters(max_codepoint=0x80) | st.sampled_from('\x01\x1f"\\é…😀'), max_size=6)
ANY_NUMBER = st.none() | st.integers(-(2**63), 2**63 - 1) | st.just(-(2**63))
ANY_STRUCT = st.none() | st.fixed_dictionaries(
    {
        "n": ANY_NUMBER,
        "\x02": ANY_TEXT,
        "d": st.none() | st.floats() | st.just(-1.7976931348623157e308),
        "b": st.none() | st.booleans(),
        "l": st.none() | st.lists(ANY_NUMBER, max_size=3),
        "s": st.none() | st.fixed_dictionaries({"deep": ANY_TEXT}),
    }
)
STRUCT = pa.struct(
    [
        ("n", WHOLE),
        ("\x02", TEXT),
        ("d", pa.float64()),
        ("b", pa.bool_()),
        ("l", pa.list_(WHOLE)),
        ("s", pa.struct([("deep", TEXT)])),
    ]
)


@given(st.lists(st.tuples(ANY_TEXT, ANY_STRUCT, st.none() | st.lists(ANY_STRUCT, max_size=4)), min_size=1, max_size=4))
def test_json_is_never_longer_than_estimated(rows_: list[tuple[object, ...]]) -> None:
    kinds = {"a": TEXT, "s": STRUCT, "l": pa.list_(STRUCT)}
    frame = pl.DataFrame(rows_, schema={name: polars_type(kind) for name, kind in kinds.items()}, orient="row")
    for name, kind in kinds.items():
        built = call("json_object", literal("tt"), literal("x\x01"), Column(name, kind))
        (texts,) = evaluate(frame, {"it": built})[0]
        sizes = GROWTH["json_object"](built, [pl.Series(["tt"]), pl.Series(["x\x01"]), frame[name]])
        assert (texts.str.len_bytes() <= sizes).all()


def test_the_longest_values_are_made() -> None:
    made = {"r": call("repeat", A, N), "p": call("lpad", B, N), "c": call("concat", A, call("repeat", A, N))}
    values, faults = evaluate(rows("x", "y", 999_999), made)
    assert faults.to_list() == [None, None]
    assert values.select(pl.all().str.len_bytes()).rows() == [(1, 1, 2), (999_999, 999_999, 1_000_000)]


def test_a_pattern_of_a_row_is_bounded_for_it_is_compiled() -> None:
    for name in ("like", "ilike", "regexp_like"):
        _, faults = evaluate(rows("x", "y" * 1_001), {"it": call(name, A, B)})
        assert faults[0] is None and str(faults[1]).startswith("pattern longer than 1000 bytes, or ")


@pytest.mark.parametrize(
    "search",
    [
        call("regexp_like", A, literal(r"\pL{100}y")),
        call("regexp_like", A, B),
        call("regexp_extract", A, literal(r".*a.{200}!")),
        call("regexp_replace", A, literal(r"(?i).*a[a-z]{300}!"), literal("")),
        call("like", A, literal("%" + "_" * 500 + "!")),
        call("regexp_like", A, literal("a?x?" * 500 + "!")),
        call("regexp_like", A, literal("(x|a)" * 2_000 + "!")),
    ],
    ids=lambda search: str(search)[:150],
)
def test_a_text_that_is_too_long_for_a_costly_pattern_is_a_fault(search: Expression) -> None:
    """Without the fault, each search would take 5 to 20 s for a text of a million bytes."""
    began = time.process_time()
    values, faults = evaluate(rows("xa" * 500_000, "[ab]*a[ab]{900}c"), {"it": search})
    assert faults[0] is None and "text too long for a pattern this expensive" in str(faults[1])
    assert time.process_time() - began < 3
    assert values["it"].is_null().to_list()[1]
    _, faults = evaluate(rows("xa" * 500, "[ab]*a[ab]{900}c"), {"it": search})
    assert faults.to_list() == [None, None]


def test_usual_patterns_have_a_value_for_every_text() -> None:
    for pattern in (
        r"^\w+@[\w.]+\.\pL{2,6}$",
        r"\d{4}-\d{2}-\d{2}",
        "error|warn(ing)?",
        "x" * 900,
        "(?i)error|warning",
    ):
        matches = call("regexp_like", A, literal(pattern))
        assert evaluate(rows(MILLION, ""), {"it": matches})[1].to_list() == [None, None]


def test_like_with_a_usual_pattern_is_faultless() -> None:
    patterns = [literal("%a_b%"), literal("%" * 90)]
    assert [faultless(call("like", A, pattern)) for pattern in patterns] == [True, False]


def test_untaken_branch_causes_no_fault() -> None:
    short = call("less", call("length", A), literal(10, WHOLE))
    doubled = call("case", short, call("concat_strict", A, A), literal("long"))
    values, faults = evaluate(rows(MILLION, ""), {"it": doubled})
    assert (values["it"].to_list(), faults.to_list()) == (["kk", "long"], [None, None])


def test_rows_that_are_too_much_at_once_are_computed_in_pieces() -> None:
    frame = pl.DataFrame({"n": [900_000, 2_000_000] * 60, "a": ["x"] * 120})
    values, faults = evaluate(frame, {"size": call("length", call("repeat", A, N))})
    assert values["size"].to_list() == [900_000, None] * 60
    assert faults.is_null().to_list() == [True, False] * 60


def test_constants_have_the_bound_that_planning_gives() -> None:
    one, some = pl.DataFrame({"row": [0]}), call("repeat", literal("x"), literal(LONGEST_CONSTANT + 1, WHOLE))
    assert evaluate(one, {"it": some}, LONGEST_CONSTANT)[1][0] is not None
    assert evaluate(one, {"it": some})[0]["it"].str.len_bytes()[0] == LONGEST_CONSTANT + 1


def test_every_function_with_the_largest_arguments_stays_within_limits_of_memory_and_time() -> None:
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    command = [sys.executable, "-m", "tests.operators.expressions.hostile", str(MEMORY)]
    # a panic that runs out of memory while it prints a backtrace deadlocks
    quiet = os.environ | {"RUST_BACKTRACE": "0"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=quiet)
    assert done.returncode == 0, (time.monotonic() - began, done.stdout[-200:], done.stderr[-1_000:])
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 60
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert len(names) >= 200
    assert set(FUNCTIONS) - set(names) == _PLAIN


EMPTY = pl.DataFrame(schema={"a": pl.String, "b": pl.String, "n": pl.Int64, "l": pl.List(pl.String)})


@pytest.mark.parametrize(
    "expression",
    [
        call("array_overlaps", call("array", N, literal(2, WHOLE)), call("array", literal(3, WHOLE), N)),
        call("concat", A, literal("x")),
        call("replace", A, literal("x"), B),
        call("array_append", L, literal("x")),
        call("lpad", A, literal(9, WHOLE), literal(" ")),
        *(expression for _, expression, _, _ in CASES),
    ],
    ids=lambda expression: str(expression)[:50],
)
def test_a_batch_without_rows_has_no_values(expression: Expression) -> None:
    """Over no rows, a constant is still one value, which must not become a row."""
    values, faults = evaluate(EMPTY, {"it": expression})
    assert (values.height, len(faults)) == (0, 0)
