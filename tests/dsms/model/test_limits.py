"""The limits of statements and their setting."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path

import pytest

from dsms.model.limits import Limits, read_limits
from dsms.model.statements import TextLocation
from operators.core.errors import ConfigError, SqlError, UserError


def test_values_within_a_limit_pass() -> None:
    Limits(columns=3).check("columns", 3, "the view has {} columns")


def test_an_error_names_the_limit_and_its_setting() -> None:
    with pytest.raises(UserError) as raised:
        Limits(queries=3).check("queries", 4, "there would be {} queries")
    assert str(raised.value) == ('there would be 4 queries, more than 3; the limit "queries" is set by DSMS_LIMITS')


def test_an_error_points_to_the_place_that_is_known() -> None:
    with pytest.raises(SqlError) as raised:
        Limits().check("statement_nesting", 10_000, "the statement is nested {} deep", TextLocation(2, 5))
    assert (raised.value.line, raised.value.column) == (2, 5)


def test_the_setting_changes_what_it_names() -> None:
    limits = read_limits("columns=20, statement_nesting=7")
    assert (limits.columns, limits.statement_nesting) == (20, 7)
    assert limits.queries == Limits().queries


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("column=20", 'unknown limit "column"'),
        ("columns", 'not ""'),
        ("columns=-1", 'not "-1"'),
        ("columns=0", "positive"),
    ],
)
def test_other_settings_are_refused(text: str, part: str) -> None:
    with pytest.raises(ConfigError, match=part):
        read_limits(text)


def test_the_documents_list_all_limits_with_their_defaults() -> None:
    text = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()
    listed = re.findall(
        r"^\| `(\w+)` \| ([\d ]+) \|", text.partition("## Limits")[2].partition("\n## ")[0], re.MULTILINE
    )
    assert {name: int(number.replace(" ", "")) for name, number in listed} == asdict(Limits())
