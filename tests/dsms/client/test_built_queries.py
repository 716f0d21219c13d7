"""Queries built without SQL text are the queries that they stand for."""

from __future__ import annotations

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


@pytest.mark.parametrize(("query", "expected"), QUERIES, ids=lambda value: type(value).__name__)
def test_a_view_of_a_built_query(query: object, expected: list[tuple[object, ...]]) -> None:
    session = LocalSession()
    session.execute("""
        REGISTER SOURCE os (id INT, customer VARCHAR, amount INT) FROM o; CREATE STREAM orders OVER os KEY id;
        REGISTER SOURCE cs (name VARCHAR, city VARCHAR) FROM c; CREATE STREAM customers OVER cs KEY name
    """)
    session.execute(view_statement("a-view", query))
    session.push("os", [{**row, "ts": 1} for row in ROWS])
    session.push("cs", [{**row, "ts": 1} for row in CITIES])
    session.advance(2)
    assert sorted(tuple(row.values()) for row in session.relation("a-view")) == expected


def test_what_is_no_query_is_refused() -> None:
    with pytest.raises(UserError, match="int is no query"):
        text_of(3)
