"""Schemas as clients of PostgreSQL see them."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from sqlalchemy import create_engine, inspect

from tests.dsms.coordinator.postgres.local_served import served

SCRIPT = """
CREATE SCHEMA sales; CREATE SCHEMA empty;
CREATE TABLE t (k INT PRIMARY KEY);
CREATE TABLE sales.orders (id INT PRIMARY KEY, amount INT CHECK (amount > 0));
CREATE VIEW sales.large AS SELECT id FROM sales.orders WHERE amount > 100
"""
#: What psql asks for \dn and \dt.
DN = """SELECT n.nspname AS "Name", pg_catalog.pg_get_userbyid(n.nspowner) AS "Owner" FROM pg_catalog.pg_namespace n
WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' ORDER BY 1"""
DT = """SELECT n.nspname, c.relname FROM pg_catalog.pg_class c
LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r','m') AND {} ORDER BY 1, 2"""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with served() as (made, port):
        made.session.execute(SCRIPT)
        yield port


@pytest.fixture(scope="module")
def connection(port: int) -> Iterator[psycopg.Connection]:
    with psycopg.connect(host="127.0.0.1", port=port, user="ann", dbname="dsms", autocommit=True) as made:
        yield made


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (DN, [("empty", "dsms"), ("public", "dsms"), ("sales", "dsms")]),
        (DT.format("pg_catalog.pg_table_is_visible(c.oid)"), [("public", "t")]),
        (DT.format("n.nspname = 'sales'"), [("sales", "large"), ("sales", "orders")]),
        (
            "SELECT schema_name FROM information_schema.schemata WHERE schema_name NOT LIKE 'pg%' ORDER BY 1",
            [("empty",), ("information_schema",), ("public",), ("sales",)],
        ),
        (
            "SELECT table_schema, table_name, column_name FROM information_schema.columns ORDER BY 1, 2, 3",
            [("public", "t", "k"), ("sales", "large", "id"), ("sales", "orders", "amount"), ("sales", "orders", "id")],
        ),
        (
            "SELECT constraint_schema, constraint_name FROM information_schema.table_constraints"
            " WHERE table_name = 'orders' ORDER BY 2",
            [("sales", "orders_amount_check"), ("sales", "orders_pkey")],
        ),
        ("SELECT 'sales.orders'::regclass::text, to_regclass('orders') IS NULL", [("sales.orders", True)]),
        ("SELECT 'sales'::regnamespace::text", [("sales",)]),
        ("SELECT schemaname, tablename FROM pg_tables ORDER BY 1", [("public", "t"), ("sales", "orders")]),
        ("SELECT current_schema()", [("public",)]),
    ],
)
def test_the_catalog_has_schemas(
    connection: psycopg.Connection, query: str, expected: list[tuple[object, ...]]
) -> None:
    assert connection.execute(query).fetchall() == expected


def test_statements_name_tables_with_their_schema(connection: psycopg.Connection) -> None:
    connection.execute('INSERT INTO "dsms"."sales"."orders" VALUES (%s, %s)', (1, 5))
    connection.execute("UPDATE sales.orders SET amount = %s WHERE orders.id = %s", (7, 1))
    assert connection.execute("SELECT orders.amount FROM sales.orders WHERE id = %s", (1,)).fetchall() == [(7,)]
    connection.execute("DELETE FROM sales.orders")


def test_the_inspector_of_sqlalchemy_reads_each_schema(port: int) -> None:
    engine = create_engine(f"postgresql+psycopg://ann@127.0.0.1:{port}/dsms")
    seen = inspect(engine)
    assert {"public", "sales", "empty"} <= set(seen.get_schema_names())
    assert (seen.get_table_names(), seen.get_table_names("sales")) == (["t"], ["orders"])
    assert [column["name"] for column in seen.get_columns("orders", schema="sales")] == ["id", "amount"]
    engine.dispose()
