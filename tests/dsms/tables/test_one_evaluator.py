"""A one-time statement computes the same values as a view: every function, operator and cast, over extreme values.

The calls are derived from the examples in the registry, with columns of every type in place of their operands. The
values in a view are those of `operators.expressions.evaluate`, which other tests compare with DuckDB, papers and
literals.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pytest
import sqlglot
from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.types import type_sql
from dsms.sql.binder.scalars.expressions import bind_expression
from dsms.sql.binder.scope import Scope
from dsms.sql.parser.dialect import Dsms
from dsms.statements.registry import parse
from dsms.tables.one_time import evaluate
from dsms.tables.one_time_query import one_time_query_of
from operators.core.distinct_type import stored_schema
from operators.core.errors import UserError
from operators.expressions import FUNCTIONS, Expression
from operators.expressions import evaluate as evaluate_in_view
from operators.expressions.types import BY_NAME

UUID = BY_NAME["UUID"].arrow
CITY = pa.struct([("city", pa.string())])
STRUCT = pa.struct([("a", pa.int32()), ("b", pa.string())])
DAYS = ("0001-01-01", "1970-01-01", "2024-02-29", "2024-12-31", "9999-12-31", "1582-10-10")
TIMES = (
    "1969-12-31 23:59:59.999999", "2024-02-29 12:30:01.000005", "9999-12-31 23:59:59.999999", "0001-01-01",
    "2024-03-31 02:30:00", "2024-12-30",
)  # fmt: skip
IDS = (*(f"{n:08x}-0000-4000-8000-{n:012x}" for n in (0, 1, 2**32 - 1, 7)), "ffffffff-ffff-ffff-ffff-ffffffffffff")
#: The columns, with values for which functions of the same name have differed before.
COLUMNS: dict[str, tuple[pa.DataType, list[object]]] = {
    "ti": (pa.int8(), [None, 0, 1, -1, 127, -128, 3]),
    "i": (pa.int32(), [None, 0, 1, -1, 2**31 - 1, -(2**31), 65]),
    "l": (pa.int64(), [None, 0, 2, -1, 2**63 - 1, -(2**63), 40]),
    "r": (pa.float32(), [None, 0.0, -0.0, 1.5, math.nan, math.inf, -2.5]),
    "f": (pa.float64(), [None, -1.0, 2.5, math.nan, -math.inf, 1e300, 0.5]),
    "m": (pa.decimal128(9, 2), [*map(Decimal, ("0", "2.50", "-0.05", "9999999.99", "-3.50", "1.00")), None]),
    "w": (pa.decimal128(38, 0), [*map(Decimal, ("0", "3", "-7", "9" * 38, "1")), None, Decimal(10) ** 18]),
    "s": (pa.string(), [None, "", " Ünï ǆ ß", "abcdef", "2.5", "2024-02-29T12:30:00+02:00", "İzmir i̇\t"]),
    "p": (pa.string(), ["b", None, "", "x|_", "(x)", "%", "1e3"]),
    "js": (pa.string(), ['{"a":"x","e":1.50}', '{"a":1,}', None, '[1,"x",null]', "nul", '"\\u00e9"', '{"a":null}']),
    "b": (pa.bool_(), [None, True, False, True, None, False, True]),
    "d": (pa.date32(), [None, *map(dt.date.fromisoformat, DAYS)]),
    "t": (pa.timestamp("us"), [None, *map(dt.datetime.fromisoformat, TIMES)]),
    "y": (pa.binary(), [None, b"", b"\x00\xff", b"abc", b"2", b"x", b"\xc3"]),
    "u": (UUID, [None, *IDS, None]),
    "la": (pa.list_(pa.int32()), [None, [], [1, None, 1], [None], [3, 2], [2**31 - 1], [1]]),
    "ls": (pa.list_(pa.string()), [["a", None], [], None, ["b", "a"], [""], ["é"], ["x", "x"]]),
    "address": (CITY, [None, {"city": "é"}, {"city": None}, None, {"city": ""}, None, None]),
    "st": (STRUCT, [None, *(dict(zip("ab", row, strict=True)) for row in ((1, None), (None, "x"), (1, "x"), (0, ""))),
                    None, {"a": 2, "b": "é"}]),
}  # fmt: skip
SCHEMA = pa.schema([("id", pa.int32()), *((name, type_) for name, (type_, _) in COLUMNS.items())])
#: Each value of a column is in a row with several values of each other column.
TURNS = (0, 1, 2, 5)
ROWS = pa.Table.from_pylist(
    [
        {"id": turn * 7 + at} | {n: v[(at + turn * k) % 7] for k, (n, (_, v)) in enumerate(COLUMNS.items())}
        for turn, at in itertools.product(range(len(TURNS)), range(7))
    ],
    schema=stored_schema(SCHEMA),
).cast(SCHEMA)
FRAME = pl.DataFrame(ROWS.cast(stored_schema(SCHEMA)))
SCOPE = Scope(SCHEMA)
TYPES = [*(type_sql(type_) for type_, _ in COLUMNS.values()), "DECIMAL(4, 1)", "SMALLINT", "BIGINT[]", "VARCHAR[]"]
#: The number of calls in one SELECT.
_AT_ONCE = 24
#: The number of calls of a function that are tried on rows in fault.
_FAULTS = 4
EXAMPLES = [function.example for function in FUNCTIONS.values() if function.example]


#: Calls of functions that have a unit in place of a column.
BY_HAND = {
    "EXTRACT(YEAR FROM t)": [f"EXTRACT({unit} FROM {name})" for unit in ("YEAR", "WEEK", "DOW") for name in "dt"],
    "DATE_DIFF('day', a, b)": [
        f"DATE_DIFF('{unit}', {a}, {b})" for unit in ("day", "month") for a in "dt" for b in "dt"
    ],
}


def parsed(sql: str) -> exp.Expr:
    return sqlglot.parse_one(sql, dialect=Dsms)


def calls_of(example: str) -> list[str]:
    """The example, and calls like it with columns of any types in place of its operands."""
    named = parsed(example).find_all(exp.Column, exp.Var)
    columns = {node.parts[0].name if isinstance(node, exp.Column) else node.name for node in named}
    constants = (TokenType.STRING, TokenType.NUMBER)
    slots = [token for token in sqlglot.tokenize(example, dialect=Dsms)
             if token.token_type in constants or token.text in columns]  # fmt: skip
    choices = [[token_text(example, slot) if slot.token_type in constants else "i", *COLUMNS] for slot in slots]
    width = len(slots)
    if width <= 2:
        given = list(itertools.product(*choices))
    else:
        first = tuple(choice[0] for choice in choices)
        given = [(*first[:at], name, *first[at + 1 :]) for at in range(width) for name in COLUMNS]
        given += [(*first[: width - 2], *pair) for pair in itertools.product(COLUMNS, repeat=2)]
        given += [(a, *(b,) * (width - 1)) for a, b in itertools.product(COLUMNS, ("s", "p", "i", "l", "b", "m", "f"))]
    return list(dict.fromkeys([*BY_HAND.get(example, ()), *(filled(example, slots, names) for names in given)]))


def token_text(example: str, token: Token) -> str:
    return example[token.start : token.end + 1]


def filled(example: str, slots: list[Token], names: tuple[str, ...]) -> str:
    for token, name in reversed(list(zip(slots, names, strict=True))):
        example = example[: token.start] + name + example[token.end + 1 :]
    return example


def bound(sql: str) -> Expression | None:
    try:
        return bind_expression(parsed(sql), SCOPE)
    except (UserError, sqlglot.ParseError):
        return None


def once(calls: Sequence[str], rows: Iterable[int]) -> pa.Table:
    """The values of the calls in a one-time SELECT over these rows."""
    values = ", ".join(f"{call} AS x{at}" for at, call in enumerate(calls))
    (statement,) = parse(f"SELECT {values} FROM t WHERE id IN ({', '.join(map(str, rows))})")
    assert isinstance(statement, st.Select)
    return evaluate(one_time_query_of(statement.select, Catalog(), {"t": ROWS}).over(lambda _: ROWS))


def text(value: object) -> str:
    """The value in a form that distinguishes types, NaN, nested NULLs, and 0.0 from -0.0."""
    return f"{type(value).__name__} {value!r}"


def wrong_values(calls: dict[str, list[object]], rows: Sequence[int]) -> Iterator[str]:
    """The differences between the values of calls in a view, which are given, and in a one-time SELECT. No call is in
    fault on these rows."""
    try:
        answered = once(list(calls), rows)
    except UserError as error:
        if len(calls) == 1:
            yield f"{[*calls][0]}: {error}"
            return
        for call, values in calls.items():
            yield from wrong_values({call: values}, rows)
        return
    for (call, values), column in zip(calls.items(), answered.columns, strict=True):
        for row, wanted, found in zip(rows, map(text, values), map(text, column.to_pylist()), strict=True):
            if wanted != found:
                yield f"{call} of row {row}: {wanted} in a view, {found} once"


def missed_fault(call: str, row: int, fault: str) -> Iterator[str]:
    try:
        answer = once([call], [row])
        yield f"{call} of row {row}: {fault} in a view, {answer.to_pylist()} once"
    except UserError as error:
        if fault not in str(error):
            yield f"{call} of row {row}: {fault} in a view, {error} once"


def differences(calls: Iterable[str]) -> list[str]:
    """The differences between the values of calls in a view and in a one-time SELECT, for calls that can be bound."""
    found: list[str] = []
    tried = 0
    alike: dict[tuple[int, ...], dict[str, list[object]]] = {}
    for call in calls:
        if (expression := bound(call)) is None:
            continue
        values, faults = evaluate_in_view(FRAME, {"x": expression})
        listed = values["x"].to_arrow().to_pylist()
        good = tuple(row for row, fault in enumerate(faults) if fault is None)
        alike.setdefault(good, {})[call] = [listed[row] for row in good]
        if len(good) < len(listed) and (tried := tried + 1) <= _FAULTS:
            row = next(row for row in range(len(listed)) if row not in good)
            found += missed_fault(call, row, faults[row])
    for rows, same in alike.items():
        pairs = list(same.items()) if rows else []
        for at in range(0, len(pairs), _AT_ONCE):
            found += wrong_values(dict(pairs[at : at + _AT_ONCE]), rows)
    return found


def no_differences(calls: Iterable[str]) -> None:
    found = differences(calls)
    if found:
        pytest.fail("\n".join([f"{len(found)} differences", *found[:10]]), pytrace=False)


def test_the_grid_reaches_every_function() -> None:
    unreached = [example for example in EXAMPLES if not any(map(bound, calls_of(example)))]
    assert unreached == []


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_function_has_the_values_and_faults_of_a_view(example: str) -> None:
    no_differences(calls_of(example))


@pytest.mark.parametrize("name", COLUMNS)
def test_a_cast_has_the_values_and_faults_of_a_view(name: str) -> None:
    no_differences(f"{cast}({name} AS {type_})" for type_ in TYPES for cast in ("CAST", "TRY_CAST"))
