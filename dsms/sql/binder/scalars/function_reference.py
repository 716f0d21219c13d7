"""Generates the reference of types and functions, `docs/functions.md`, from the declarations of functions.

`python -m dsms.sql.binder.scalars.function_reference > docs/functions.md` writes it.
"""

import sys
import textwrap
from itertools import groupby

from dsms.sql.binder.scalars.expression_functions import ALIASES
from operators.aggregates import AGGREGATES, AggregateFunction
from operators.aggregates import ALIASES as AGGREGATE_ALIASES
from operators.expressions import FUNCTIONS, Function
from operators.expressions.types import TYPES

#: The most characters of a table row: lines in documents must be shorter than 180.
_LONGEST = 170
_HEAD = """# Types and functions

## Types

| SQL | Arrow |
|---|---|
| BOOLEAN | bool |
| TINYINT, SMALLINT, INT or INTEGER, BIGINT or LONG | int8, int16, int32, int64 |
| REAL | float32 |
| DOUBLE, DOUBLE PRECISION, FLOAT8 | float64 |
| DECIMAL(p, s), NUMERIC(p, s) | decimal128(p, s), at most 38 digits; DECIMAL alone is DECIMAL(18, 3) |
| VARCHAR, CHAR, TEXT, STRING (a length is ignored) | string |
| VARBINARY, BINARY, BYTES, BLOB, BYTEA | binary |
| DATE | date32 |
| TIMESTAMP | timestamp in microseconds, naive, UTC |
{distinct}| T[], ARRAY<T> | list |
| STRUCT<a T, …>, ROW(a T, …) | struct |

Literals: integers are INTEGER, BIGINT or DECIMAL by size, `1.5` is DECIMAL(2, 1), `1e3` is DOUBLE, `X'0A'` is
VARBINARY. A text literal takes the type of its surroundings, as in `t > '2024-01-01'`.

Types are widened implicitly from TINYINT to BIGINT, from integers to DECIMAL, from all numbers to DOUBLE and from DATE
to TIMESTAMP; everything else needs CAST.

## Faults

A row whose expression has no value is in *fault*: division by zero, overflow, a failed CAST, invalid JSON. A fault is
masked in AND where another operand is FALSE, in OR where another is TRUE; a branch of CASE, IF or COALESCE that is not
taken has no fault; TRY_CAST never has one.

## Numbers

Integer arithmetic has the wider of the two types; `/` on integers truncates toward zero. NaN equals itself and is
larger than every other number. Results of decimal arithmetic, with at most 38 digits (a larger value is a fault):

| operation | digits before the point | scale |
|---|---|---|
| `+`, `-` | max of both, plus 1 | max of both |
| `*` | sum of both | sum of both |
| `/` | of the dividend, plus the scale of the divisor | max of both, at least 6 |
| `%` | max of both | max of both |

Where a result has all 38 digits, a value within one part in 10^12 of the limit counts as an overflow.

Casts of decimals, and of text to DECIMAL, round halves away from zero, casts of floats to integers to even. Text that
is cast to an integer is a whole number without a point or exponent: `CAST('2.5' AS INT)` is a fault, and so is
`CAST('2.0' AS INT)`.
"""

_AGGREGATE_HEAD = """
## Aggregates

Over the rows of a group, with `FILTER (WHERE …)`, and DISTINCT and ORDER BY where they make sense. NULL is ignored
unless something else is stated. Sums of integers and decimals are exact; sums of floats are taken in the order of
(instant, source, partition, offset), so they do not depend on batches. Retracted rows are undone exactly, also NaN and
infinity. The cost of linear aggregates is proportional to the changes; aggregates that need the values (MEDIAN,
percentiles, MODE, STRING_AGG, ARRAY_AGG) read the groups that change.

| function | arguments | DISTINCT | meaning |
|---|---|---|---|
"""
_OVER = """
## Functions with OVER

ROW_NUMBER, RANK, DENSE_RANK, PERCENT_RANK, CUME_DIST, NTILE(n), LAG(x [, n [, default]]), LEAD(x [, n [, default]]),
FIRST_VALUE, LAST_VALUE, NTH_VALUE(x, n), and SUM, COUNT, AVG, MIN, MAX over a frame (ROWS, RANGE or GROUPS). Ties are
broken by (instant, source, partition, offset), the older row first.

## Functions that return rows

UNNEST(array) [WITH ORDINALITY] and GENERATE_SERIES(from, to [, step]), both included. They are written in FROM, also
after items whose columns they read, or once in a select list. In views GENERATE_SERIES takes integers and a positive
step; in SELECTs that run once also a negative step, and two timestamps with an interval.

JSON_ARRAY_ELEMENTS(j), JSON_ARRAY_ELEMENTS_TEXT(j), JSON_OBJECT_KEYS(j) and STRING_TO_TABLE(text, separator) stand for
UNNEST of JSON_ELEMENTS, JSON_ELEMENT_TEXTS, JSON_KEYS and STRING_TO_ARRAY.

## Aggregates that return JSON

JSON_AGG(x), also JSON_GROUP_ARRAY, is a JSON array of all values, with null for NULL. JSON_OBJECT_AGG(name, x), also
JSON_GROUP_OBJECT, is a JSON object; a NULL as a name is a fault, and names that occur twice are kept twice. Both are
NULL if there are no rows, and take FILTER and ORDER BY, or (JSON_AGG) DISTINCT, but not OVER. The values are those of
TO_JSON. The names with JSONB mean the same.
"""


def reference() -> str:
    """Returns the text of `docs/functions.md`."""
    distinct = "".join(f"| {type_.name} | {type_.summary} |\n" for type_ in TYPES if type_.summary)
    parts = [_HEAD.replace("{distinct}", distinct)]
    shown = [(name, function) for name, function in FUNCTIONS.items() if function.example]
    for kind, entries in groupby(shown, key=lambda entry: entry[1].kind):
        parts.append(f"\n## Functions: {kind}\n\n| function | example | takes | meaning |\n|---|---|---|---|\n")
        parts += [_row(name, function) for name, function in entries]
    parts.append(_AGGREGATE_HEAD)
    parts += [_aggregate_row(name, AGGREGATES[name]) for name in AGGREGATES if name not in AGGREGATE_ALIASES]
    parts.append(_OVER)
    parts.append("\n## Other names\n\n| name | means |\n|---|---|\n")
    names = {name: target for name, target in ALIASES.items() if _public(name)} | AGGREGATE_ALIASES
    parts += [f"| {name.upper()} | {target.upper()} |\n" for name, target in sorted(names.items())]
    return "".join(parts)


def _aggregate_row(name: str, function: AggregateFunction) -> str:
    least, most = function.arguments
    number = str(least) if least == most else f"{least} or more" if most is None else f"{least} to {most}"
    return f"| {name.upper()} | {number} | {'yes' if function.distinct else 'no'} | {function.summary} |\n"


def _row(name: str, function: Function) -> str:
    """The row of a function; a long summary is continued in rows below it."""
    cells = (name.upper(), f"`{function.example}`", function.accepted_arguments, function.summary)
    *first, summary = (cell.replace("|", "\\|") for cell in cells)
    lines = textwrap.wrap(summary, _LONGEST - sum(map(len, first)) - len("|  |  |  |  |"))
    rows = [(*first, lines[0]), *(("", "", "", line) for line in lines[1:])]
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def _public(name: str) -> bool:
    return ALIASES[name] != "" and not name.startswith(("j_s_o_n", "str_position", "unix_to", "is_nan", "regexp_i"))


if __name__ == "__main__":
    sys.stdout.write(reference())
