"""A selected field of a struct gives its name to the column. In queries that older versions stored, the column has a
numbered name."""

from __future__ import annotations

import msgspec
import pytest

from dsms.model.objects import Query
from dsms.model.schema import schema
from dsms.sql.binder.bind import plan_of
from operators.core.errors import SqlError
from tests.support.fake_environment import apply_all

ORDERS = """REGISTER SOURCE os (id INT, items ARRAY<STRUCT<sku TEXT, n INT>>, a STRUCT<City TEXT, p STRUCT<x INT>>)
FROM t; CREATE STREAM o OVER os KEY id;"""
CASES = {
    "SELECT i.sku, i.n FROM o CROSS JOIN UNNEST(o.items) AS u(i)": ["sku", "n"],
    "SELECT u.sku FROM o CROSS JOIN UNNEST(items) AS u": ["sku"],
    "SELECT id, a.city, o.a.p.X, (a).p FROM o": ["id", "City", "x", "p"],
    "SELECT DISTINCT a.city FROM o": ["City"],
    "SELECT a.p.x, COUNT(*) AS n FROM o GROUP BY a.p.x": ["x", "n"],
    "SELECT d.sku, d.n + 1 FROM (SELECT u.sku, u.n FROM o, UNNEST(o.items) AS u) AS d": ["sku", "column2"],
    "SELECT a.city AS town, a.p.x + 1 FROM o": ["town", "column2"],
}


@pytest.mark.parametrize("select", CASES)
def test_a_selected_field_gives_its_name_to_the_column(select: str) -> None:
    catalog, _ = apply_all(f"{ORDERS} CREATE STREAMED VIEW V AS {select}")
    assert schema(plan_of("V", catalog)).names == CASES[select]


def test_two_fields_of_one_name_are_refused() -> None:
    with pytest.raises(SqlError, match='two columns are named "x"; rename one with AS'):
        apply_all(f"{ORDERS} CREATE STREAMED VIEW V AS SELECT id, a.p.x, a.p.x FROM o")


def test_a_query_that_an_older_version_stored_keeps_its_names() -> None:
    catalog, _ = apply_all(f"{ORDERS} CREATE STREAMED VIEW V AS SELECT id, a.city, a.p.x FROM o")
    view = catalog.find("V")
    stored = msgspec.json.decode(msgspec.json.encode(view))
    del stored["fields_named"]
    older = catalog.with_changed(msgspec.convert(stored, Query))
    assert schema(plan_of("V", older)).names == ["id", "column2", "column3"]
    catalog, _ = apply_all("CREATE STREAMED VIEW W AS SELECT column2, column3 FROM V", older)
    assert schema(plan_of("W", catalog)).names == ["column2", "column3"]
