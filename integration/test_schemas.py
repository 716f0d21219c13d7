"""Schemas at a coordinator with tokens: grants by pattern, and what is left after kill -9."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from dsms.model.tokens import entry, new_token
from integration.cluster import kill_9, running
from integration.secured_postgres import secured_postgres

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]
#: What psql asks for \dn, without the owner.
SCHEMAS = "SELECT nspname FROM pg_catalog.pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'"


def test_grants_on_schemas_that_outlive_the_coordinator(kafka: str, redis_url: str, tmp_path: Path) -> None:
    admin, known_admin = new_token("admin", "administrator")
    rules = {"read": ("sales.*",), "write": ("ann.*",), "write_topics": ("dsms.ann.*",)}
    ann, known_ann = new_token("ann", "writer", **rules)
    secured = secured_postgres(tmp_path, entry(known_admin), entry(known_ann))
    connect = secured.connect

    with running(kafka, redis_url, tmp_path, environment=secured.environment) as cluster:
        with connect(admin) as connection:
            for statement in (
                "CREATE SCHEMA sales",
                "CREATE SCHEMA hidden",
                "CREATE TABLE sales.orders (id INT PRIMARY KEY, amount INT)",
                "CREATE TABLE hidden.orders (id INT PRIMARY KEY)",
                "INSERT INTO sales.orders VALUES (1, 10)",
            ):
                connection.execute(statement)
        with connect(ann) as connection:
            assert {name for (name,) in connection.execute(SCHEMAS)} == {"public", "sales"}
            assert connection.execute("SELECT orders.amount FROM sales.orders").fetchall() == [(10,)]
            for refused in (
                "SELECT * FROM hidden.orders",
                "INSERT INTO hidden.orders VALUES (1)",
                "DROP TABLE sales.orders",
                "CREATE SCHEMA other",
                "DROP SCHEMA sales CASCADE",
            ):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(refused)
            connection.execute("CREATE SCHEMA ann")
            connection.execute("CREATE TABLE ann.mine (id INT PRIMARY KEY)")
            connection.execute("INSERT INTO ann.mine SELECT id FROM sales.orders")
        kill_9(cluster.coordinator)
        cluster.coordinator.start()
        with connect(admin) as connection:
            assert {name for (name,) in connection.execute(SCHEMAS)} == {"public", "sales", "hidden", "ann"}
            assert connection.execute("SELECT id FROM ann.mine").fetchall() == [(1,)]
            connection.execute("DROP SCHEMA ann CASCADE")
            assert {name for (name,) in connection.execute(SCHEMAS)} == {"public", "sales", "hidden"}
