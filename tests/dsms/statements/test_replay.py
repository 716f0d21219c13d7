"""REPLAY DEAD LETTERS: which dead letters it chooses, and the records that it writes."""

from __future__ import annotations

import polars as pl
import pytest

from dsms.model.catalog import Catalog
from dsms.model.statements import Replay
from dsms.statements.dml.replay import DEAD_LETTER, bound_correction
from dsms.statements.registry import parse
from operators.core.errors import SqlError, UserError

LETTERS = pl.DataFrame(
    [
        (0, 3, "not JSON", "{x", False),
        (0, 5, "late: instant 1", '{"v": 1}', True),
        (1, 2, "not JSON", None, False),
        (1, 4, 'column "v"', '{"v": "N/A"}', False),
    ],
    schema=pl.DataFrame(DEAD_LETTER.empty_table()).schema,
    orient="row",
)


def replayed(rest: str) -> tuple[list[tuple[int, str | None]], int]:
    (statement,) = parse(f"REPLAY DEAD LETTERS OF s{rest}")
    assert isinstance(statement, Replay)
    return bound_correction(statement, Catalog()).replayed(LETTERS)


@pytest.mark.parametrize(
    ("rest", "chosen", "late"),
    [
        ("", [(0, None), (2, None), (3, None)], 1),
        (" WHERE late", [], 1),
        (""" WHERE reason LIKE 'not%' AND "partition" = 0""", [(0, None)], 0),
        (" WHERE value LIKE '%N/A%'", [(3, None)], 0),
        (
            """ SET value = replace(value, '"N/A"', 'null') WHERE value IS NOT NULL""",
            [(0, "{x"), (1, '{"v": 1}'), (3, '{"v": null}')],
            0,
        ),
        (" SET VALUE = '{}' WHERE (late OR (partition = 1)) AND offset > 2", [(1, "{}"), (3, "{}")], 0),
        (" WHERE NULL", [], 0),
    ],
)
def test_which_dead_letters_are_replayed(rest: str, chosen: list[tuple[int, str | None]], late: int) -> None:
    assert replayed(rest) == (chosen, late)


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        (" SET value = upper(value)", "SET value is NULL at partition 1, offset 2"),
        (" WHERE 1 / (offset - 5) > 0", "WHERE at partition 0, offset 5: division by zero"),
        (" SET value = CAST(1 / (offset - 5) AS VARCHAR)", "SET at partition 0, offset 5: division by zero"),
    ],
)
def test_computing_with_a_missing_dead_letter_value_is_reported(rest: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        replayed(rest)


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        (" WHERE value", "line 1, column 32: WHERE has type VARCHAR, but needs BOOLEAN"),
        (" SET value = partition", "SET value has type INTEGER, but needs VARCHAR"),
        (" SET reason = 'x'", "only the value of a record can be set"),
        (" WHERE other = 1", 'column "other" not found'),
        (" WHERE offset IN (SELECT 1)", "WHERE has a subquery"),
        (" WHERE", "unexpected end"),
        (" SET value =", "unexpected end"),
        (" now", 'unexpected "now"'),
    ],
)
def test_binding_errors_have_a_location(rest: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        replayed(rest)
