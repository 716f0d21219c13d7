"""Queries that are built without SQL text give the results of the equivalent SQL."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import duckdb
import ibis
import pyarrow as pa
import pytest
import sqlalchemy as sa
import sqlglot

from dsms.client.built_queries import text_of, view_statement
from dsms.testing import LocalSession
from operators.core.errors import UserError

ORDERS = sa.table("orders", sa.column("id"), sa.column("customer"), sa.column("amount"))
CUSTOMERS = sa.table("customers", sa.column("name"), sa.column("city"))
ROWS = [
    {"id": 1, "customer": "o'neil", "amount": 5}, {"id": 2, "customer": "bob", "amount": 7},
    {"id": 3, "customer": "o'neil", "amount": 9}, {"id": 4, "customer": "eve", "amount": 1},
]  # fmt: skip
CITIES = [{"name": "o'neil", "city": "Rome"}, {"name": "bob", "city": "Oslo"}]

total = sa.func.sum(ORDERS.c.amount)
grouped = sa.select(ORDERS.c.customer, sa.func.count().label("n"), total.label("total")).group_by(ORDERS.c.customer)
joined = sa.join(ORDERS, CUSTOMERS, ORDERS.c.customer == CUSTOMERS.c.name, isouter=True)
QUERIES = [
    (grouped.having(total > 5), [("bob", 1, 7), ("o'neil", 2, 14)]),
    (sa.select(ORDERS.c.id).where(ORDERS.c.customer.in_(["o'neil", "x"]), ORDERS.c.amount > 5), [(3,)]),
    (
        sa.select(ORDERS.c.id, sa.func.coalesce(CUSTOMERS.c.city, "?").label("city")).select_from(joined),
        [(1, "Rome"), (2, "Oslo"), (3, "Rome"), (4, "?")],
    ),
    (
        sa.select(ORDERS.c.id, sa.case((ORDERS.c.amount > 6, "big"), else_="small").label("size"))
        .where(sa.exists().where(CUSTOMERS.c.name == ORDERS.c.customer)),
        [(1, "small"), (2, "big"), (3, "big")],
    ),
    (sqlglot.select("customer", "MAX(amount) AS most").from_("orders").group_by("customer"), [
        ("bob", 7), ("eve", 1), ("o'neil", 9),
    ]),
    ("SELECT id FROM orders WHERE amount < 6", [(1,), (4,)]),
]  # fmt: skip


def two_streams() -> LocalSession:
    session = LocalSession()
    session.execute("""
        REGISTER SOURCE os (id INT, customer VARCHAR, amount INT) FROM o; CREATE STREAM orders OVER os KEY id;
        REGISTER SOURCE cs (name VARCHAR, city VARCHAR) FROM c; CREATE STREAM customers OVER cs KEY name
    """)
    return session


def fill(session: LocalSession) -> None:
    session.push("os", [{**row, "ts": 1} for row in ROWS])
    session.push("cs", [{**row, "ts": 1} for row in CITIES])
    session.advance(2)


@pytest.mark.parametrize(("query", "expected"), QUERIES, ids=lambda value: type(value).__name__)
def test_a_view_of_a_built_query(query: object, expected: list[tuple[object, ...]]) -> None:
    session = two_streams()
    session.execute(view_statement("a-view", query))
    fill(session)
    assert sorted(tuple(row.values()) for row in session.relation("a-view")) == expected


def ibis_queries() -> list[Any]:
    orders = ibis.table({"id": "int64", "customer": "string", "amount": "int64"}, name="orders")
    customers = ibis.table({"name": "string", "city": "string"}, name="customers")
    amount, same = ibis._.amount, orders.customer == customers.name
    largest = ibis.row_number().over(group_by="customer", order_by=ibis.desc("amount"))
    text, before = orders.customer, orders.amount.lag().over(group_by="customer", order_by="id")
    return [
        orders.filter(amount > 5).select("id"),
        orders.group_by("customer").agg(n=ibis._.count(), total=amount.sum()).filter(ibis._.total > 5),
        orders.group_by("customer").agg(
            mean=amount.mean(),
            sd=amount.std(),
            median=amount.median(),
            n=amount.nunique(),
            of=amount.max(where=ibis._.id > 1),
        ),
        orders.left_join(customers, same).select(orders.id, city=customers.city.fill_null("?")),
        orders.semi_join(customers, same).select("id"),
        orders.anti_join(customers, same).select("id"),
        orders.filter(text.isin(["o'neil", "x"])),
        orders.mutate(size=ibis.cases((orders.amount > 6, "big"), else_="small")).select("id", "size"),
        orders.mutate(place=largest).filter(ibis._.place == 0).select("id", "amount"),
        orders.select("id", before=before),
        orders.order_by(ibis.desc("amount")).limit(2),
        orders.select("customer").distinct(),
        orders.select("id").union(orders.select(id=amount)),
        orders.select(
            up=text.upper(), n=text.length(), part=text.substr(0, 2), whole=orders.amount // 2, rest=orders.amount % 3
        ),
    ]


@pytest.mark.parametrize("query", ibis_queries(), ids=itertools.count())
def test_ibis_queries_give_the_same_result_as_in_duckdb(query: Any) -> None:
    with duckdb.connect() as duck:
        for name, rows in (("orders", ROWS), ("customers", CITIES)):
            duck.register(name, pa.Table.from_pylist(rows))
        expected = duck.execute(ibis.to_sql(query, dialect="duckdb")).fetchall()
    session = two_streams()
    session.execute(view_statement("a-view", query))
    fill(session)
    got = [tuple(row.values()) for row in session.relation("a-view")]
    assert Counter(map(str, map(rounded, got))) == Counter(map(str, map(rounded, expected)))


def rounded(row: tuple[object, ...]) -> list[object]:
    """The row, with numbers as doubles rounded to ten digits."""
    return [float(f"{value:.10g}") if isinstance(value, int | float) else value for value in row]


def test_objects_that_are_not_queries_are_refused() -> None:
    with pytest.raises(UserError, match="int is not a query"):
        text_of(3)
