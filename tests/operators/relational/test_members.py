"""Members: a row is paired with a member if the predicate with the member's constants is TRUE for it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.core.delta import Delta
from operators.core.operator import MEMBER, Move
from operators.expressions import MIRRORED, Column, call
from operators.relational import constant_index
from operators.relational.members import Members, Roster
from tests.support import duck_engine

SIGNS = {"equal": "=", "less": "<", "less_or_equal": "<=", "greater": ">", "greater_or_equal": ">="}
VALUES = st.none() | st.integers(-2, 4)
COMPARISON = st.tuples(st.sampled_from("ab"), st.sampled_from(sorted(SIGNS)), st.booleans())


def members(shape, constants, *, known: bool = False) -> Members:
    """A conjunction of comparisons, `flipped` ones with the constant on the left; `constants` has a row for each."""
    parameters = tuple(Column(f"c{at}", pa.int64(), nullable=False) for at in range(len(shape)))
    parts = []
    for (column, sign, flipped), parameter in zip(shape, parameters, strict=True):
        value = Column(column, pa.int64())
        parts.append(call(MIRRORED[sign], parameter, value) if flipped else call(sign, value, parameter))
    given_by = {parameter.name: tuple(row[at] for row in constants) for at, parameter in enumerate(parameters)}
    roster = Roster(tuple(range(10, 10 + len(constants))), given_by)
    return Members("f", parts[0] if len(parts) == 1 else call("and", *parts), parameters, known, roster)


def expected(rows, shape, constants) -> list[tuple]:
    """DuckDB's pairs, by a query for each member."""
    matches = []
    with duck_engine.connection() as connection:
        connection.execute("CREATE TEMP TABLE t (a BIGINT, b BIGINT)")
        duck_engine.fill(connection, "t", rows)
        for member, row in enumerate(constants, 10):
            where = " AND ".join(
                f"{name} {SIGNS[sign]} {constant}" for (name, sign, _), constant in zip(shape, row, strict=True)
            )
            matches += [(*row, member) for row in connection.execute(f"SELECT a, b FROM t WHERE {where}").fetchall()]
    return sorted(matches, key=repr)


def step(operator: Members, rows, **more) -> list[tuple]:
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64()), *((name, pa.int32()) for name in more)])
    records = [
        {"a": a, "b": b, **{name: values[at] for name, values in more.items()}} for at, (a, b) in enumerate(rows)
    ]
    delta = Delta.of([("+", row, 5) for row in records], schema)
    matches = operator.step(delta, (), Move(0, 9)).delta.frame
    return sorted(matches.select("a", "b", MEMBER).rows(), key=repr)


@st.composite
def families(draw):
    shape = draw(st.lists(COMPARISON, min_size=1, max_size=3))
    constants = draw(st.lists(st.tuples(*[st.integers(-2, 4)] * len(shape)), min_size=1, max_size=6))
    return shape, constants


ROWS = st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=8)


@given(ROWS, families())
def test_every_member_gets_the_rows_that_its_predicate_finds(rows, family) -> None:
    assert step(members(*family), rows) == expected(rows, *family)


@given(ROWS, families())
def test_without_room_for_an_index_the_rows_are_the_same(rows, family) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constant_index, "MAX_ENTRIES", 0)
        assert step(members(*family), rows) == expected(rows, *family)


@given(ROWS, families(), st.lists(st.integers(9, 16), min_size=8, max_size=8))
def test_rows_of_a_member_are_compared_only_with_that_member(rows, family, owners) -> None:
    matches = step(members(*family, known=True), rows, **{MEMBER: owners})
    wanted = expected(rows, *family)
    asked = sorted(((*row, owner) for row, owner in zip(rows, owners, strict=False)), key=repr)
    assert matches == [row for row in asked if row in wanted]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.string(), ["a", "b", "ß", "", None]),
        (pa.date32(), [dt.date(2024, 1, 1), dt.date(2024, 1, 2), None]),
        (pa.timestamp("us"), [*map(dt.datetime.fromisoformat, ["2024-01-01", "2024-01-02T03:04"]), None]),
        (pa.decimal128(9, 2), [Decimal("1.10"), Decimal("1.20"), None]),
        (pa.float64(), [-0.0, 0.0, 1.5, float("inf"), None]),
        (pa.bool_(), [True, False, None]),
        (pa.binary(), [b"a", b"b", None]),
    ],
)
@pytest.mark.parametrize("sign", sorted(SIGNS))
def test_constants_of_every_type(kind: pa.DataType, values, sign: str) -> None:
    parameter = Column("c", kind, nullable=False)
    constants = tuple(value for value in values if value is not None)
    roster = Roster(tuple(range(len(constants))), {"c": constants})
    operator = Members("f", call(sign, Column("a", kind), parameter), (parameter,), roster=roster)
    delta = Delta.of([("+", {"a": value}, 5) for value in values], pa.schema([("a", kind)]))
    compare = {
        "equal": lambda a, b: a == b,
        "less": lambda a, b: a < b,
        "less_or_equal": lambda a, b: a <= b,
        "greater": lambda a, b: a > b,
        "greater_or_equal": lambda a, b: a >= b,
    }[sign]
    wanted = [(a, m) for a in values for m, b in enumerate(constants) if a is not None and compare(a, b)]
    matches = operator.step(delta, (), Move(0, 9)).delta.frame.select("a", MEMBER).rows()
    assert sorted(matches, key=repr) == sorted(wanted, key=repr)


def test_members_do_not_affect_operator_equality() -> None:
    left, right = (members([("a", "equal", False)], constants) for constants in ([(1,)], [(2,), (3,)]))
    assert left == right
    assert repr(left) == repr(right)


def test_an_index_over_many_constants_finds_few_candidates() -> None:
    operator = members([("a", "equal", False)], [(at,) for at in range(1000)])
    candidates = operator._candidates(pl.DataFrame({"a": [7, 7, 2000]}))
    assert [part.tolist() for part in candidates] == [[0, 1], [7, 7]]


@pytest.mark.parametrize("entries", [0, constant_index.MAX_ENTRIES])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_pieces_make_no_difference(entries: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constant_index, "MAX_ENTRIES", entries)
    monkeypatch.setattr("operators.relational.members.ROWS_AT_ONCE", size)
    monkeypatch.setattr("operators.relational.members.PAIRS_AT_ONCE", size)
    rows = [(a, b) for a in (None, 0, 1, 2) for b in (0, 1)]
    shape, constants = [("a", "greater_or_equal", False), ("b", "equal", True)], [(0, 0), (1, 1), (0, 1)]
    assert step(members(shape, constants), rows) == expected(rows, shape, constants)


def test_no_output_without_members() -> None:
    assert step(members([("a", "equal", False)], []), [(1, 2)]) == []
