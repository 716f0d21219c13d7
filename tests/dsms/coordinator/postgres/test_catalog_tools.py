"""What tools ask PostgreSQL's catalog: DBeaver, the JDBC driver, Npgsql and others. The expected answers follow from
the tables below by PostgreSQL's rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from dsms.coordinator.http.access import Access
from dsms.coordinator.postgres.catalog import catalog_query
from dsms.model.tokens import new_token
from tests.dsms.coordinator.postgres.local_served import served

SCRIPT = """
CREATE TABLE t (k INT PRIMARY KEY, name TEXT DEFAULT 'x', price DECIMAL(9, 2), tags TEXT[], CHECK (price > 0));
CREATE TABLE pair (b TEXT, a INT, PRIMARY KEY (a, b));
CREATE STREAM orders (id BIGINT, customer TEXT, at BIGINT) ORDER BY at SOURCE 'orders';
CREATE VIEW revenue AS SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer
"""
Client = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with (
        served() as (made, port),
        psycopg.connect(host="127.0.0.1", port=port, user="ann", dbname="dsms", autocommit=True) as connection,
    ):
        made.session.execute(SCRIPT)
        yield connection


#: Queries of DBeaver.
DBEAVER = {
    "SELECT current_schema(),session_user": [("public", "anybody")],
    "SELECT db.datname FROM pg_catalog.pg_database db WHERE datallowconn AND NOT datistemplate ORDER BY 1": [("dsms",)],
    """SELECT c.relname, d.description FROM pg_catalog.pg_class c LEFT OUTER JOIN pg_catalog.pg_description d
        ON d.objoid=c.oid AND d.objsubid=0 AND d.classoid='pg_class'::regclass
        WHERE c.relnamespace=2200 AND c.relkind not in ('i','I','c') ORDER BY 1""": [
        ("orders", None), ("pair", None), ("revenue", None), ("t", None),
    ],
    """SELECT a.attname, pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) as def_value FROM pg_catalog.pg_attribute a
        INNER JOIN pg_catalog.pg_class c ON (a.attrelid=c.oid) LEFT OUTER JOIN pg_catalog.pg_attrdef ad
        ON (a.attrelid=ad.adrelid AND a.attnum = ad.adnum) LEFT OUTER JOIN pg_depend dep on dep.refobjid = a.attrelid
        AND dep.deptype = 'i' and dep.refobjsubid = a.attnum and dep.classid = dep.refclassid
        WHERE NOT a.attisdropped AND c.oid='t'::regclass::oid ORDER BY a.attnum""": [
        ("k", None), ("name", "'x'"), ("price", None), ("tags", None),
    ],
    """SELECT c.conname, c.conkey, case when c.contype='c' then "substring"(pg_get_constraintdef(c.oid), 7) end FROM
        pg_catalog.pg_constraint c JOIN pg_catalog.pg_class t ON t.oid=c.conrelid WHERE t.relname IN ('t', 'pair')
        ORDER BY c.conname""": [("pair_pkey", [2, 1], None), ("t_check", None, "((price > 0))"), ("t_pkey", [1], None)],
    """SELECT i.indkey as keys, c.relname, pg_catalog.pg_stat_get_numscans(i.indexrelid) as index_num_scans
        FROM pg_catalog.pg_index i INNER JOIN pg_catalog.pg_class c ON c.oid=i.indexrelid
        INNER JOIN pg_catalog.pg_class tc ON tc.oid=i.indrelid ORDER BY c.relname""": [
        ("2 1", "pair_pkey", 0), ("1", "revenue_pkey", 0), ("1", "t_pkey", 0),
    ],
    "SELECT typname, typsend FROM pg_catalog.pg_type WHERE typname IN ('bool', '_int4') ORDER BY 1": [
        ("_int4", "array_send"), ("bool", "boolsend"),
    ],
    "SELECT datname, state FROM pg_catalog.pg_stat_activity": [("dsms", "active")],
    "SELECT locktype FROM pg_catalog.pg_locks": [],
    "SELECT castsource FROM pg_catalog.pg_cast": [],
    "SELECT description FROM pg_catalog.pg_shdescription": [],
    "SELECT relname, n_live_tup FROM pg_stat_user_tables ORDER BY 1": [("pair", 0), ("revenue", 0), ("t", 0)],
    "SELECT relname FROM pg_class WHERE relname ILIKE ANY (ARRAY['T','R%e']) ORDER BY 1": [("revenue",), ("t",)],
}  # fmt: skip
#: Queries of the JDBC driver, for the metadata in its interface.
JDBC = {
    # getPrimaryKeys
    """SELECT result.COLUMN_NAME, result.KEY_SEQ, result.PK_NAME FROM (SELECT current_database() AS TABLE_CAT,
        a.attname AS COLUMN_NAME, (information_schema._pg_expandarray(i.indkey)).n AS KEY_SEQ, ci.relname AS PK_NAME,
        information_schema._pg_expandarray(i.indkey) AS KEYS, a.attnum AS A_ATTNUM FROM pg_catalog.pg_class ct
        JOIN pg_catalog.pg_attribute a ON (ct.oid = a.attrelid) JOIN pg_catalog.pg_index i ON (a.attrelid = i.indrelid)
        JOIN pg_catalog.pg_class ci ON (ci.oid = i.indexrelid) WHERE true AND ct.relname = 'pair' AND i.indisprimary)
        result where result.A_ATTNUM = (result.KEYS).x ORDER BY result.pk_name, result.key_seq""": [
        ("a", 1, "pair_pkey"), ("b", 2, "pair_pkey"),
    ],
    # getIndexInfo
    """SELECT tmp.NON_UNIQUE, tmp.INDEX_NAME, tmp.ORDINAL_POSITION,
        trim(both '"' from pg_catalog.pg_get_indexdef(tmp.CI_OID, tmp.ORDINAL_POSITION, false)) AS COLUMN_NAME,
        CASE tmp.AM_NAME WHEN 'btree' THEN CASE tmp.I_INDOPTION[tmp.ORDINAL_POSITION - 1] & 1::smallint WHEN 1 THEN 'D'
        ELSE 'A' END ELSE NULL END AS ASC_OR_DESC FROM (SELECT NOT i.indisunique AS NON_UNIQUE,
        ci.relname AS INDEX_NAME, (information_schema._pg_expandarray(i.indkey)).n AS ORDINAL_POSITION,
        ci.oid AS CI_OID, i.indoption AS I_INDOPTION, am.amname AS AM_NAME FROM pg_catalog.pg_class ct
        JOIN pg_catalog.pg_index i ON (ct.oid = i.indrelid) JOIN pg_catalog.pg_class ci ON (ci.oid = i.indexrelid)
        JOIN pg_catalog.pg_am am ON (ci.relam = am.oid) WHERE true AND ct.relname = 'pair') AS tmp
        ORDER BY ORDINAL_POSITION""": [(False, "pair_pkey", 1, "a", "A"), (False, "pair_pkey", 2, "b", "A")],
    # the question of dbt for the indexes of a model, of which it drops those that are not in the model's file
    """select i.relname as name, m.amname as method, array_to_string(array_agg(a.attname), ',') as column_names
        from pg_index ix join pg_class i on i.oid = ix.indexrelid join pg_am m on m.oid=i.relam
        join pg_class t on t.oid = ix.indrelid join pg_attribute a on a.attrelid = t.oid and a.attnum = ANY(ix.indkey)
        where t.relname IN ('revenue', 't') and t.relkind in ('r', 'm') group by 1, 2""": [("t_pkey", "btree", "k")],
    # getImportedKeys
    """SELECT pkc.relname AS "PKTABLE_NAME", pos.n AS "KEY_SEQ" FROM pg_catalog.pg_class pkc,
        pg_catalog.pg_attribute pka, pg_catalog.pg_constraint con, pg_catalog.generate_series(1, 32) pos(n)
        WHERE pkc.oid = pka.attrelid AND pka.attnum = con.confkey[pos.n] AND con.confrelid = pkc.oid
        AND con.contype = 'f' ORDER BY pos.n""": [],
    # getSQLKeywords
    "select string_agg(word, ',') from pg_catalog.pg_get_keywords() where word <> ALL ('{a,abs}'::text[])": [(None,)],
    # the search for the type of a name
    """SELECT typinput='pg_catalog.array_in'::regproc as is_array, typtype, typname, pg_type.oid FROM pg_catalog.pg_type
        LEFT JOIN (select ns.oid as nspoid, ns.nspname, r.r from pg_namespace as ns join (select s.r,
        (current_schemas(false))[s.r] as nspname from generate_series(1, array_upper(current_schemas(false), 1)) as s(r)
        ) as r using (nspname)) as sp ON sp.nspoid = typnamespace WHERE typname = '_int4'
        ORDER BY sp.r, pg_type.oid DESC""": [(True, "b", "_int4", 1007)],
    "SELECT e.typdelim FROM pg_catalog.pg_type t, pg_catalog.pg_type e WHERE t.oid = 1007 and t.typelem = e.oid": [
        (",",)
    ],
}  # fmt: skip
#: Queries of other drivers and tools.
OTHERS = {
    # Npgsql looks for arrays by the functions that receive them
    """SELECT typ.typname, CASE WHEN proc.proname='array_recv' THEN 'a' ELSE typ.typtype END AS typtype, typ.typelem
        FROM pg_type AS typ LEFT JOIN pg_class AS cls ON (cls.oid = typ.typrelid) LEFT JOIN pg_proc AS proc
        ON proc.oid = typ.typreceive WHERE typ.oid = ANY ('{23,1007}'::oid[]) ORDER BY typ.oid""": [
        ("int4", "b", 0), ("_int4", "a", 23),
    ],
    "SELECT oid, typarray, oid::regtype::text FROM pg_type t WHERE t.oid = to_regtype('int4')": [(23, 1007, "integer")],
    "SELECT 'int8'::regtype, 'int8'::regtype::oid, 'pg_class'::regclass::oid, 'public'::regnamespace": [
        ("bigint", 20, 1259, "public")
    ],
    "SELECT to_regclass('public.t'), to_regclass('nothing'), to_regclass('t') IS NULL": [("t", None, False)],
    "SELECT pg_table_is_visible((schemaname || '.' || tablename)::regclass) FROM pg_tables WHERE tablename = 't'": [
        (True,)
    ],
    "SELECT relname FROM pg_class WHERE relkind = ANY ('{r,f}'::char[]) ORDER BY 1": [("orders",), ("pair",), ("t",)],
    "SELECT has_table_privilege('t', 'SELECT'), has_schema_privilege('public', 'USAGE')": [(True, True)],
    "SELECT quote_ident('A b'), quote_literal('it''s'), pg_get_viewdef('revenue') LIKE 'SELECT customer%'": [
        ('"A b"', "'it''s'", True)
    ],
    "SELECT current_setting('server_version_num')::int >= 150000, current_setting('nothing', true)": [(True, None)],
    "SELECT CASE WHEN pg_is_in_recovery() THEN 1 ELSE 0 END": [(0,)],
    "SELECT json_agg(relname ORDER BY relname) FROM pg_class WHERE relkind = 'r'": [(["pair", "t"],)],
    "SELECT now() - pg_postmaster_start_time() < interval '1 s', now() IS NOT NULL FROM pg_am LIMIT 1": [(True, True)],
    "SELECT xmin IS NOT NULL, relname FROM pg_class WHERE relname = 't'": [(True, "t")],
    """SELECT kcu.column_name FROM information_schema.table_constraints tc JOIN information_schema.key_column_usage kcu
        USING (constraint_name, table_schema) WHERE tc.table_name = 'revenue'""": [("customer",)],
    "SELECT data_type, udt_name FROM information_schema.columns WHERE column_name = 'tags'": [("ARRAY", "_text")],
    "SELECT data_type FROM information_schema.element_types WHERE object_name = 't'": [("text",)],
    "SELECT table_name FROM information_schema.role_table_grants WHERE privilege_type = 'SELECT' ORDER BY 1": [
        ("orders",), ("pair",), ("revenue",), ("t",)
    ],
    "SELECT count(*) FROM pg_catalog.pg_stats": [(0,)],
    "SELECT s.srvname FROM pg_foreign_table f, pg_foreign_server s WHERE f.ftserver = s.oid": [("sources",)],
}  # fmt: skip


@pytest.mark.parametrize("query", [*DBEAVER, *JDBC, *OTHERS])
def test_what_tools_ask(client: Client, query: str) -> None:
    assert client.execute(query).fetchall() == (DBEAVER | JDBC | OTHERS)[query]


def test_all_settings_are_shown(client: Client) -> None:
    shown = {name: setting for name, setting, _ in client.execute("SHOW ALL").fetchall()}
    assert shown["server_version"] == "15.0" and shown["timezone"] == "UTC"


def test_unknown_columns_and_functions_have_their_own_errors(client: Client) -> None:
    with pytest.raises(psycopg.errors.UndefinedColumn, match='column "relhasoids" does not exist'):
        client.execute("SELECT relhasoids FROM pg_class")
    with pytest.raises(psycopg.Error, match='function "nothing" does not exist'):
        client.execute("SELECT 'nothing'::pg_catalog.regproc::pg_catalog.oid")


@pytest.mark.parametrize(
    "reading",
    [
        "SELECT relname, (SELECT content FROM read_text('/etc/passwd')) FROM pg_class",
        "SELECT * FROM pg_class, read_csv('/etc/passwd')",
        "SELECT * FROM pg_class, '/etc/passwd'",
        "SELECT * FROM pg_class, glob('/*')",
        "SELECT * FROM pg_class, duckdb_settings()",
        "SELECT * FROM pg_catalog.duckdb_tables",
        'SELECT * FROM pg_class, "catalog names"',
        "SELECT pg_catalog.getenv('PATH')",
    ],
)
def test_a_query_of_the_catalog_reads_nothing_else(client: Client, reading: str) -> None:
    with pytest.raises(psycopg.Error):
        client.execute(reading)


def test_only_what_the_caller_may_read_is_listed() -> None:
    token, known = new_token("ann", "reader", read=("pair",))
    with (
        served(Access((known,))) as (made, port),
        psycopg.connect(f"postgresql://ann@127.0.0.1:{port}/x", password=token, autocommit=True) as connection,
    ):
        made.session.execute(SCRIPT)
        for query in (
            "SELECT relname FROM pg_class WHERE relkind <> 'i'",
            "SELECT DISTINCT table_name FROM information_schema.columns",
            "SELECT table_name FROM information_schema.table_privileges",
        ):
            assert connection.execute(query).fetchall() == [("pair",)]
        assert connection.execute("SELECT to_regclass('t')").fetchall() == [(None,)]
        with pytest.raises(psycopg.errors.UndefinedTable):
            connection.execute("SELECT 't'::regclass")


@pytest.mark.parametrize(
    "query", ["SELECT upper('pg_class')", "SELECT current_timestamp", "SELECT array_length(ARRAY[1], 1)", "SELECT 1"]
)
def test_queries_without_functions_of_the_catalog_are_left_to_the_coordinator(query: str) -> None:
    assert catalog_query(query) is None
