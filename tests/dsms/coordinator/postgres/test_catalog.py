"""PostgreSQL's catalog as tools read it: psql, SQLAlchemy, and forms of queries that JDBC and others use."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

import psycopg
import pytest
from sqlalchemy import MetaData, create_engine, inspect

from dsms.coordinator.postgres.catalog import catalog_query
from tests.dsms.coordinator.postgres.local_served import served

SCRIPT = """
CREATE TABLE t (k INT PRIMARY KEY, name TEXT DEFAULT 'x', price DECIMAL(9, 2), CHECK (price > 0));
CREATE TABLE pair (b TEXT, a INT, PRIMARY KEY (a, b));
CREATE VIEW big AS SELECT k, name FROM t WHERE k > 1;
CREATE STREAM orders (id BIGINT, at BIGINT) ORDER BY at SOURCE 'orders';
COMMENT ON TABLE pair IS 'two of them'; COMMENT ON COLUMN pair.b IS 'the second'
"""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with served() as (made, port):
        made.session.execute(SCRIPT)
        yield port


@pytest.fixture(scope="module")
def connection(port: int) -> Iterator[psycopg.Connection]:
    with psycopg.connect(host="127.0.0.1", port=port, user="ann", dbname="dsms", autocommit=True) as made:
        yield made


def psql(port: int, command: str) -> list[str]:
    if shutil.which("psql") is None:
        pytest.skip("psql is not installed: Debian's postgresql-client has it")
    address = f"host=127.0.0.1 port={port} user=ann dbname=dsms"
    done = subprocess.run(
        ["psql", address, "-X", "-A", "-c", command], capture_output=True, text=True, timeout=60, check=True
    )
    assert not done.stderr.replace("Did not find any relations.", "").strip(), done
    return done.stdout.splitlines()


#: Commands of psql, and lines that they write.
PSQL = {
    r"\d": {"public|big|materialized view|dsms", "public|t|table|dsms", "public|pair|table|dsms"},
    r"\dt+": {"public|t|table|dsms|permanent|heap||", "public|pair|table|dsms|permanent|heap||two of them"},
    r"\d t": {"k|integer||not null|", "name|text|||'x'", "price|numeric(9,2)|||", '"t_pkey" PRIMARY KEY, btree (k)'},
    r"\d+ pair": {'"pair_pkey" PRIMARY KEY, btree (a, b)'},
    r"\d+ big": {" SELECT k, name FROM t WHERE k > 1", '"big_pkey" PRIMARY KEY, btree (k)'},
    r"\d orders": {"id|bigint||||", "Server: sources"},
    r"\di": {"public|t_pkey|index|dsms|t", "public|pair_pkey|index|dsms|pair"},
    r"\dn": {"public|dsms"},
    r"\l": {"dsms|dsms|UTF8|C|C||libc|"},
    r"\l+": {"dsms|dsms|UTF8|C|C||libc|||pg_default|"},
    r"\du": {"dsms||{}"},
}


@pytest.mark.parametrize("command", PSQL)
def test_psql_describes(port: int, command: str) -> None:
    lines = {line.strip() for line in psql(port, command)}
    assert {line.strip() for line in PSQL[command]} <= lines, lines


@pytest.mark.parametrize(
    "command",
    [
        r"\dv",
        r"\df+",
        r"\da",
        r"\dT+",
        r"\do",
        r"\dD",
        r"\dd",
        r"\db",
        r"\dF",
        r"\dx",
        r"\dy",
        r"\dX",
        r"\dp",
        r"\dAo",
        r"\dconfig",
        r"\d *",
    ],
)
def test_psql_lists(port: int, command: str) -> None:
    psql(port, command)


def test_comments(port: int, connection: psycopg.Connection) -> None:
    row = connection.execute(
        "SELECT obj_description('pair'::regclass), obj_description('pair'::regclass, 'pg_class'),"
        " col_description('pair'::regclass, 1), col_description('pair'::regclass, 2), obj_description('t'::regclass)"
    ).fetchone()
    assert row == ("two of them", "two of them", "the second", None, None)
    engine = create_engine(f"postgresql+psycopg://ann@127.0.0.1:{port}/dsms")
    found = inspect(engine)
    assert found.get_table_comment("pair") == {"text": "two of them"}
    assert [column["comment"] for column in found.get_columns("pair")] == ["the second", None]
    engine.dispose()


def test_a_renamed_table_keeps_its_oid_comments_and_rows(port: int, connection: psycopg.Connection) -> None:
    asked = "SELECT c.oid, c.relname, obj_description(c.oid) FROM pg_catalog.pg_class c WHERE c.relname = %s"
    ((oid, _, comment),) = connection.execute(asked, ["pair"]).fetchall()
    connection.execute("ALTER TABLE public.pair RENAME TO couple")
    try:
        assert connection.execute(asked, ["couple"]).fetchall() == [(oid, "couple", comment)]
        assert connection.execute(asked, ["pair"]).fetchall() == []
        assert connection.execute("SELECT * FROM couple").fetchall() == []
    finally:
        connection.execute("ALTER TABLE couple RENAME TO pair")


def test_columns_are_added_and_dropped(port: int, connection: psycopg.Connection) -> None:
    connection.execute("CREATE TABLE grown (k INT PRIMARY KEY)")
    try:
        connection.execute("INSERT INTO grown VALUES (1)")
        connection.execute("ALTER TABLE public.grown ADD COLUMN n INT DEFAULT 7, ADD t TEXT")
        assert connection.execute("SELECT * FROM grown").fetchall() == [(1, 7, None)]
        engine = create_engine(f"postgresql+psycopg://ann@127.0.0.1:{port}/dsms")
        columns = inspect(engine).get_columns("grown")
        engine.dispose()
        assert [(column["name"], column["default"]) for column in columns] == [("k", None), ("n", "7"), ("t", None)]
        connection.execute("ALTER TABLE grown DROP COLUMN n")
        assert connection.execute("SELECT * FROM grown").fetchall() == [(1, None)]
    finally:
        connection.execute("DROP TABLE grown")


def test_sqlalchemy_reflects_keys_defaults_and_definitions(port: int) -> None:
    engine = create_engine(f"postgresql+psycopg://ann@127.0.0.1:{port}/dsms")
    found = inspect(engine)
    assert found.get_pk_constraint("pair")["constrained_columns"] == ["a", "b"]
    assert found.get_view_definition("big") == "SELECT k, name FROM t WHERE k > 1"
    assert [check["sqltext"] for check in found.get_check_constraints("t")] == ["price > 0"]
    reflected = MetaData()
    reflected.reflect(engine, views=True)
    assert {name: [key.name for key in table.primary_key] for name, table in reflected.tables.items()} == {
        "t": ["k"],
        "pair": ["a", "b"],
        "big": ["k"],
    }
    price = reflected.tables["t"].c.price.type
    assert str(price) == "NUMERIC(9, 2)"
    engine.dispose()


#: Forms of queries that drivers and tools send, with their answers.
QUERIES = {
    # the JDBC driver numbers the columns of a key by a function that returns rows
    """SELECT (result.keys).x AS num, result.seq FROM (SELECT (information_schema._pg_expandarray(i.indkey)).n AS seq,
        information_schema._pg_expandarray(i.indkey) AS keys FROM pg_catalog.pg_class ct JOIN pg_catalog.pg_index i
        ON ct.oid = i.indrelid WHERE i.indisprimary AND ct.relname = 'pair') result ORDER BY seq""": [(2, 1), (1, 2)],
    "SELECT setting FROM pg_catalog.pg_settings WHERE name = 'max_index_keys'": [("32",)],
    "SELECT t.typlen FROM pg_catalog.pg_type t WHERE t.typname = 'name'": [(64,)],
    "SELECT count(word) FROM pg_catalog.pg_get_keywords() WHERE word <> 'a'": [(0,)],
    # the ODBC driver counts the items of a key from 0
    "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]"
    " WHERE i.indrelid = 'pair'::regclass": [("a",)],
    # DBeaver and scripts use names in place of OIDs
    "SELECT c.oid::regclass::text FROM pg_class c WHERE c.oid = 'public.t'::regclass": [("t",)],
    "SELECT atttypid::regtype AS kind FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum = 2": [("text",)],
    "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'm'": [("big",)],
    "SELECT pg_get_indexdef('t_pkey'::regclass)": [("CREATE UNIQUE INDEX t_pkey ON public.t USING btree (k)",)],
    "WITH c AS (SELECT relname FROM pg_class WHERE relkind = 'r') SELECT count(*) FROM c": [(2,)],
    "SELECT relname FROM pg_class WHERE relname OPERATOR(pg_catalog.~) '^(t)$' COLLATE pg_catalog.default": [("t",)],
    "SELECT current_database(), current_schema() AS here, current_user": [("dsms", "public", "anybody")],
    """SELECT kcu.column_name FROM information_schema.table_constraints tc JOIN information_schema.key_column_usage kcu
        ON kcu.constraint_name = tc.constraint_name WHERE tc.constraint_type = 'PRIMARY KEY' AND tc.table_name = 'pair'
        ORDER BY kcu.ordinal_position""": [("a",), ("b",)],
    "SELECT numeric_precision, numeric_scale FROM information_schema.columns WHERE column_name = 'price'": [(9, 2)],
}  # fmt: skip


@pytest.mark.parametrize("query", QUERIES)
def test_what_drivers_ask(connection: psycopg.Connection, query: str) -> None:
    assert connection.execute(query).fetchall() == QUERIES[query]


def test_columns_have_the_names_that_postgres_gives_them(connection: psycopg.Connection) -> None:
    cursor = connection.execute("SELECT relname::text, pg_catalog.format_type(23, NULL), 1, count(*) FROM pg_class"
                                " GROUP BY 1")  # fmt: skip
    assert [column.name for column in cursor.description or []] == ["relname", "format_type", "?column?", "count"]


@pytest.mark.parametrize(
    "query", ["SELECT * FROM pg_catalog.pg_nothing", "SELECT * FROM t, pg_class", "SELECT 'nothing'::regclass"]
)
def test_an_unknown_relation_has_its_own_state(connection: psycopg.Connection, query: str) -> None:
    with pytest.raises(psycopg.errors.UndefinedTable, match="nothing|t"):
        connection.execute(query)


@pytest.mark.parametrize("query", ["SELECT 'pg_class' FROM t", "SELECT pg_total FROM t", "DELETE FROM pg_class"])
def test_other_statements_are_left_to_the_coordinator(query: str) -> None:
    assert catalog_query(query) is None
