"""A one-time SELECT has the same values as a view for every aggregate, over extreme values, except for the cases listed
here."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

import pytest

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.types import type_sql
from dsms.statements.registry import parse
from dsms.tables.one_time import evaluate
from dsms.tables.one_time_query import one_time_query_of
from dsms.testing import LocalSession
from operators.aggregates import AGGREGATES, ALIASES
from operators.core.errors import UserError
from tests.dsms.tables.test_one_evaluator import COLUMNS, ROWS

PAIRS = {name for name in AGGREGATES if name.startswith(("regr_", "covar_")) or name == "corr"}
BEST = {"arg_min", "arg_max"}
#: Aggregates whose result depends on the order of values, which is undefined without ORDER BY.
ORDERED = {"first": "{a} ORDER BY id", "last": "{a} ORDER BY id", "array_agg": "{a} ORDER BY id",
           "string_agg": "{a}, ',' ORDER BY id"}  # fmt: skip
SORTED = ("percentile_cont", "percentile_disc")
#: Aggregates for which any value is right, or each value within an error.
FREE = {"any_value", "approx_count_distinct", "approx_percentile"}
#: Known differences: DuckDB sums DECIMALs of 38 digits without further digits, rounds interpolated DECIMALs to their
#: scale, and sorts NULL after values within arrays and structs.
KNOWN = {
    ("avg", "w"),
    *itertools.product(("median", "percentile_cont"), "mw"),
    *itertools.product(("min", "max", "percentile_disc", "mode", *BEST), ("la", "address", "st")),
}
#: Interpolated dates are computed as floats.
KNOWN |= {("percentile_cont", "d")}
#: The number of aggregates in one view.
_AT_ONCE = 40


def calls() -> Iterator[str]:
    """All aggregates over all columns, or over pairs of columns."""
    for name, column in itertools.product(AGGREGATES, COLUMNS):
        if name in ALIASES or name in FREE or (name, column) in KNOWN:
            continue
        if name in PAIRS:
            # sums of squares of large numbers are exact in neither
            yield from (f"{name}({column}, {other})" for other in ("ti", "m") if column in ("ti", "m"))
        elif name in BEST:
            yield from (f"{name}({column}, {other})" for other in ("i", "s", "b", "f", "t", "u"))
        elif name in SORTED:
            yield f"{name}(0.3) WITHIN GROUP (ORDER BY {column})"
        else:
            yield f"{name}({ORDERED.get(name, '{a}').format(a=column)})"
            yield from (f"{name}(DISTINCT {column})" for _ in range(name in ("count", "sum", "avg", "min", "max")))
    yield from (f"regr_count({column}, m)" for column in COLUMNS)


@pytest.fixture(scope="module")
def session() -> LocalSession:
    session, columns = LocalSession(), ", ".join(f"{name} {type_sql(type_)}" for name, (type_, _) in COLUMNS.items())
    session.execute(f"REGISTER SOURCE s (id INT, {columns}) FROM t; CREATE STREAM base OVER s KEY id")
    session.push("s", [{"op": "+", "ts": 1, **row} for row in ROWS.to_pylist()])
    session.advance(10)
    return session


Groups = dict[object, dict[str, object]]


def in_view(session: LocalSession, some: Sequence[str]) -> Groups | None:
    """The groups of a view; None if a call is refused."""
    try:
        session.execute(f"CREATE STREAMED VIEW v AS SELECT id % 3 AS g, {listed(some)} FROM base GROUP BY id % 3")
    except UserError:
        return None
    groups = {row["g"]: row for row in session.relation("v")}
    session.execute("DROP VIEW v")
    return groups


def once(some: Sequence[str]) -> Groups:
    (statement,) = parse(f"SELECT id % 3 AS g, {listed(some)} FROM base GROUP BY id % 3")
    assert isinstance(statement, st.Select)
    rows = evaluate(one_time_query_of(statement.select, Catalog(), {"base": ROWS}).over(lambda _: ROWS))
    return {row["g"]: row for row in rows.to_pylist()}


def listed(some: Sequence[str]) -> str:
    return ", ".join(f"{call} AS x{at}" for at, call in enumerate(some))


def equal(left: object, right: object) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-12) or (math.isnan(left) and math.isnan(right))
    if isinstance(left, Decimal) and isinstance(right, Decimal):
        return left == right
    # in a view 0.0 and -0.0 are the same value
    return type(left) is type(right) and str(left) == re.sub(r"-0\.0\b", "0.0", str(right))


def differences(session: LocalSession, some: Sequence[str]) -> Iterator[str]:
    """The differences between the values of calls in a view and in a one-time SELECT. A fault in a group of a view must
    be an error of the SELECT."""
    groups = in_view(session, some)
    if len(some) > 1 and (groups is None or len(groups) < 3):
        half = len(some) // 2
        yield from (each for part in (some[:half], some[half:]) for each in differences(session, part))
        return
    if groups is None:
        return
    try:
        answered = once(some)
    except UserError as error:
        for call in some if len(some) > 1 else ():
            yield from differences(session, [call])
        if len(some) == 1 and len(groups) == 3:
            yield f"{some[0]}: {error}"
        return
    for (at, call), group in itertools.product(enumerate(some), sorted(groups, key=str)):
        wanted, found = groups[group][f"x{at}"], answered[group][f"x{at}"]
        if not equal(wanted, found):
            yield f"{call} of group {group}: {wanted!r} in a view, {found!r} once"
    if len(groups) < 3:
        yield f"{some[0]}: groups {sorted(groups, key=str)} in a view, all once"


def test_an_aggregate_has_the_values_of_a_view(session: LocalSession) -> None:
    every = list(calls())
    parts = [every[at : at + _AT_ONCE] for at in range(0, len(every), _AT_ONCE)]
    found = [each for part in parts for each in differences(session, part)]
    if found:
        pytest.fail("\n".join([f"{len(found)} differences", *found[:40]]), pytrace=False)
