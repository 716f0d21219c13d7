"""Bound plans: the trees in tests/golden/binding, with their joins and filters, and properties of plans."""

from __future__ import annotations

import pytest

from dsms.model.properties import keys
from dsms.model.schema import schema
from dsms.planner.physical.explain import tree
from dsms.sql.binder.bind import plan_of
from tests.support.fake_environment import apply_all
from tests.support.plan_files import declarations, plan_files

FILES = plan_files("binding")


def bound(select: str):
    catalog, _ = apply_all(f"{declarations('binding')} CREATE STREAMED VIEW V AS {select}")
    return plan_of("V", catalog)


@pytest.mark.parametrize("name", FILES)
def test_shape(name: str, golden) -> None:
    golden(FILES[name].name, FILES[name].text(lambda case: tree(bound(case.select))))


def test_nullability_follows_outer_joins_and_aggregates() -> None:
    fields = schema(
        bound(
            "SELECT x.a AS kept, y.a AS padded, COUNT(*) AS n, COUNT(y.e) AS m, SUM(x.a) AS s"
            " FROM A x LEFT JOIN B y ON x.a = y.a GROUP BY x.a, y.a"
        )
    )
    assert {field.name: field.nullable for field in fields} == {
        "kept": False,
        "padded": True,
        "n": False,
        "m": False,
        "s": True,
    }


def test_names_of_a_star_over_a_join_differ() -> None:
    assert schema(bound("SELECT * FROM A x JOIN B y ON x.a = y.a")).names == ["a", "b", "c", "d", "y.a", "y.b", "e"]


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        ("SELECT a, COUNT(*) AS n FROM A GROUP BY a", ("a",)),
        ("SELECT x.id, y.v FROM K x JOIN K y ON x.v = y.id", ("id",)),
        ("SELECT id FROM K WHERE v IN (SELECT e FROM B)", ("id",)),
        ("SELECT DISTINCT a, b FROM A", ("a", "b")),
        ("SELECT a, c FROM A QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY c) = 1", ("a",)),
    ],
)
def test_keys_of_results(select: str, expected: tuple[str, ...]) -> None:
    assert keys(bound(select)) == expected


def test_ts_in_joins_is_that_of_the_named_item() -> None:
    fields = schema(bound("SELECT x.TS AS mine, y.TS AS theirs FROM A x JOIN B y ON x.a = y.a WHERE x.TS < y.TS"))
    assert fields.names == ["mine", "theirs"]
