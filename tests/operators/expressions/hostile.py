"""Every function of the registry with the largest arguments, evaluated under a limit of memory; run as a module.

It prints only a line for each expression, `name seconds`; an expression that ends the process has no line. The limit is
on resident memory, because the address space that allocators reserve depends on the machine.
"""

from __future__ import annotations

import itertools
import re
import resource
import sys
import time
from collections.abc import Iterator
from datetime import date, datetime
from functools import partial
from pathlib import Path

import polars as pl
import pyarrow as pa

from operators.core.errors import UserError
from operators.expressions import FUNCTIONS, Call, Column, Expression, Literal, call, cast, evaluate

#: The number of rows of a batch; the largest texts of a row have a million bytes.
ROWS = 3
LONG = "x" * 1_000_000
_TEXT, _WHOLE = pa.string(), pa.int64()
_LITERALS: list[Expression] = [
    Literal("x", _TEXT),
    Literal("y" * 20_000, _TEXT),
    Literal("", _TEXT),
    Literal("%Y%c" * 5_000, _TEXT),
    Literal("g", _TEXT),
    Literal("$.a", _TEXT),
    Literal(2**62, _WHOLE),
    Literal(3, _WHOLE),
]
_COLUMNS: dict[str, tuple[pa.DataType, object]] = {
    "long": (_TEXT, LONG),
    "other": (_TEXT, "xy" * 500_000),
    "part": (_TEXT, "x"),
    "json": (_TEXT, "[" + "1," * 400_000 + "1]"),
    "whole": (_WHOLE, 2**62),
    "million": (_WHOLE, 1_000_000),
    "number": (pa.float64(), 1e308),
    "truth": (pa.bool_(), True),
    "texts": (pa.list_(_TEXT), ["x" * 9] * 50_000),
    "numbers": (pa.list_(_WHOLE), [2**62] * 100_000),
    "at": (pa.timestamp("us"), datetime.fromisoformat("9999-12-31")),
    "day": (pa.date32(), date(1, 1, 1)),
    "money": (pa.decimal128(38, 10), None),
    "bytes": (pa.binary(), b"x" * 1_000_000),
}


def expressions() -> Iterator[tuple[str, Expression]]:
    """For each function the first calls that it accepts, with columns before constants; then nested calls."""
    columns: list[Expression] = [Column(name, type_) for name, (type_, _) in _COLUMNS.items()]
    marks = {"to_json": "t", "json_array": "tt", "json_object": "tt"}
    long, part = columns[0], columns[2]
    for name in FUNCTIONS:
        if name in marks:
            first: list[Expression] = [Literal(marks[name], _TEXT)]
            others = (
                [long] if name == "to_json" else [Literal("a", _TEXT), long] if name == "json_object" else [long] * 2
            )
            yield name, call(name, *first, *others)
            continue
        taken = list(itertools.islice(_calls(name, columns), 4))
        yield from ((name, each) for each in taken)
    for name in ("cast", "try_cast"):
        yield name, cast(columns[13], _TEXT, safe=name == "try_cast")
    many = call("repeat", part, columns[5])
    yield "nested replace", call("length", call("replace", many, part, many))
    yield "nested pad", call("lpad", call("lpad", part, columns[5], many), columns[5], many)
    doubled: Expression = long
    for _ in range(6):
        doubled = call("concat_strict", doubled, doubled)
    yield "doubled", doubled
    split = call("string_to_array", many, Literal("", _TEXT))
    yield "split", call("array_to_string", call("array_concat", split, split), many)


def _calls(name: str, columns: list[Expression]) -> Iterator[Call]:
    """Calls of a function with arguments of all kinds, the larger ones first."""
    few = [*(columns[at] for at in (0, 2, 5, 8, 10)), _LITERALS[0], _LITERALS[1], _LITERALS[-1]]
    for count, pool in ((3, few), (2, [*columns, *_LITERALS]), (1, columns), (6, [columns[5]]), (0, [])):
        made = (each for each in map(partial(_call, name), itertools.product(pool, repeat=count)) if each is not None)
        yield from itertools.islice(made, 2)


def _call(name: str, arguments: tuple[Expression, ...]) -> Call | None:
    try:
        return call(name, *arguments) if FUNCTIONS[name].resolve(arguments) is not None else None
    except (UserError, AssertionError, IndexError):
        return None


def main() -> None:
    """Evaluates all expressions, each followed by an ordinary one; fails if memory exceeds the limit, in bytes."""
    limit = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_DATA, (6 * limit,) * 2)  # so that a fault ends this process, not the machine
    frame = pl.DataFrame(
        {
            name: pl.Series([value] * ROWS) if value is not None else pl.Series([None] * ROWS, dtype=pl.Decimal(38, 10))
            for name, (_, value) in _COLUMNS.items()
        }
    )
    honest = {"sum": call("add", Column("million", _WHOLE), Literal(1, _WHOLE))}
    for name, expression in expressions():
        began = time.monotonic()
        values, faults = evaluate(frame, {"it": expression})
        assert len(values) == len(faults) == ROWS
        del values
        assert evaluate(frame, honest)[0]["sum"].to_list() == [1_000_001] * ROWS
        sys.stdout.write(f"{name.replace(' ', '_')} {time.monotonic() - began:.2f}\n")
        sys.stdout.flush()
        assert resident() < limit, (name, resident())


def resident() -> int:
    """The peak of the resident memory of this process, in bytes."""
    status = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert status is not None
    return int(status[1]) << 10


if __name__ == "__main__":
    main()
