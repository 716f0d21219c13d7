"""Unmodified PostgreSQL clients, psycopg and SQLAlchemy, over a local session."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import socket
import struct
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, inspect, text

from dsms.coordinator.http.access import Access
from dsms.coordinator.postgres import server
from dsms.coordinator.postgres.values import Type, writer_of
from dsms.model.tokens import new_token
from tests.dsms.coordinator.postgres.local_served import LocalServed, served

TABLE = "CREATE TABLE t (k INT PRIMARY KEY, name TEXT, price DOUBLE, sold BOOLEAN)"


@pytest.fixture
def service() -> Iterator[tuple[LocalServed, int]]:
    with served() as (made, port):
        made.session.execute(TABLE)
        yield made, port


def connected(port: int, **settings_: object) -> psycopg.Connection:
    return psycopg.connect(host="127.0.0.1", port=port, user="ann", dbname="x", autocommit=True, **settings_)


def test_rows_come_as_values_of_their_types(service) -> None:
    with connected(service[1]) as connection:
        made = connection.execute(
            "INSERT INTO t VALUES (%s, %s, %s, %s), (2, NULL, 1.5, FALSE)", (1, "O'Hara; --", 2.5, True)
        )
        assert made.statusmessage == "INSERT 0 2"
        for binary in (False, True):
            cursor = connection.cursor(binary=binary)
            found = cursor.execute("SELECT * FROM t WHERE k < %s ORDER BY k", (3,)).fetchall()
            assert found == [(1, "O'Hara; --", 2.5, True), (2, None, 1.5, False)]
            assert [column.name for column in cursor.description or []] == ["k", "name", "price", "sold"]


def test_parameters_of_every_type_round_trip(service) -> None:
    """Parameters become literals in this system's SQL. psycopg sends some as text and some in binary."""
    moment = datetime.datetime(2024, 2, 29, 23, 59, 59, 123_456)  # noqa: DTZ001  a TIMESTAMP has no zone
    values = [
        7, -(2**40), 2.5, True, "a'b\\c\n", moment, moment.date(), moment.time(), decimal.Decimal("-10232.250"),
        uuid.UUID(int=7), decimal.Decimal("12345678901234567890123456789012345.678"), None,
    ]  # fmt: skip
    kinds = ["BIGINT", "BIGINT", "DOUBLE", "BOOLEAN", "VARCHAR", "TIMESTAMP", "DATE", "TIME", "DECIMAL(9, 3)", "UUID"]
    kinds += ["DECIMAL(38, 3)"]
    with connected(service[1]) as connection:
        for value, kind in zip(values, [*kinds, "INT"], strict=True):
            shown = "NULL" if value is None else "'" + str(value).replace("'", "''") + "'"
            for form in ("%s", "%b", "%t"):
                asked = f"SELECT CAST({form} AS {kind}) IS NOT DISTINCT FROM CAST({shown} AS {kind}) AS same"
                assert connection.execute(asked, (value,)).fetchone() == (True,), (value, form)


def test_statements_are_tagged_as_those_of_postgres(service) -> None:
    tags = [
        ("CREATE VIEW v AS SELECT k FROM t", "CREATE STREAMED VIEW"),
        ("INSERT INTO t (k) VALUES (7), (8)", "INSERT 0 2"),
        ("UPDATE t SET name = 'x' WHERE k = 7", "UPDATE 1"),
        ("DELETE FROM t WHERE k > 7", "DELETE 1"),
        ("SELECT k FROM t", "SELECT 1"),
        ("DROP VIEW v", "DROP VIEW"),
        ("SET application_name = 'x'", "SET"),
    ]
    with connected(service[1]) as connection:
        for statement, tag in tags:
            done = connection.execute(statement).statusmessage or ""
            assert done.split()[0] == tag.split()[0] and (done == tag or tag.startswith("CREATE") or "DROP" in tag)


def test_a_script_runs_up_to_its_first_error_whose_place_is_that_in_the_script(service) -> None:
    script = "INSERT INTO t (k) VALUES (1);\nSELECT x FROM nowhere;\nINSERT INTO t (k) VALUES (2)"
    with connected(service[1]) as connection:
        with pytest.raises(psycopg.errors.UndefinedTable) as caught:
            connection.execute(script)
        position = int(caught.value.diag.statement_position or 0)
        assert script[position - 1 :].startswith("nowhere"), position
        assert connection.execute("SELECT k FROM t").fetchall() == [(1,)]


def test_errors_have_states_reasons_and_hints(service) -> None:
    with connected(service[1]) as connection:
        with pytest.raises(psycopg.errors.SyntaxError) as caught:
            connection.execute("CREATE VIEW v WITH (speed = 3) AS SELECT k FROM t")
        assert "speed" in str(caught.value).lower()
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_notice_says_that_transactions_have_no_effect(service) -> None:
    said: list[str] = []
    with connected(service[1]) as connection:
        connection.add_notice_handler(lambda notice: said.append(notice.message_primary or ""))
        with connection.transaction():
            connection.execute("INSERT INTO t (k) VALUES (5)")
        with pytest.raises(RuntimeError), connection.transaction():
            connection.execute("INSERT INTO t (k) VALUES (6)")
            raise RuntimeError
        assert connection.execute("SELECT k FROM t ORDER BY k").fetchall() == [(5,), (6,)]
    assert any("there are no transactions" in each for each in said)


def test_password_of_a_client_is_its_token() -> None:
    token, known = new_token("ann", "reader")
    with served(Access((known,))) as (service, port):
        with connected(port, password=token) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        assert service.callers == ["ann"]
        for wrong in ("dsms_wrong", ""):
            with pytest.raises(psycopg.OperationalError, match="not a known token|no password"):
                connected(port, password=wrong)
        assert service.refusals == ["unknown token"] * len(service.refusals)


def test_a_statement_ends_when_the_client_cancels_it(service) -> None:
    with connected(service[1]) as connection:
        threading.Timer(0.3, connection.cancel_safe).start()  # `cancel` would hold the GIL
        with pytest.raises(psycopg.Error, match="cancelled"):
            connection.execute("SLEEP")


def test_clients_whose_statements_take_long_do_not_hold_up_others(service) -> None:
    many = 40  # more than the threads that asyncio has by default on any machine
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(1) as pool:
        for _ in range(many):
            stack.enter_context(contextlib.closing(connected(service[1]))).pgconn.send_query(b"SLEEP")
        other = stack.enter_context(contextlib.closing(connected(service[1])))
        assert pool.submit(other.execute, "SELECT 1").result(15).fetchone() == (1,)


def test_a_cursor_reads_on_where_it_stopped(service) -> None:
    """Drivers with a fetch size request rows in pieces, with the extended protocol."""
    values = ", ".join(f"({at})" for at in range(700))
    with connected(service[1]) as connection:
        connection.execute(f"INSERT INTO t (k) VALUES {values}")
        found = list(connection.cursor().stream("SELECT k FROM t ORDER BY k"))
    assert found == [(at,) for at in range(700)]


def test_sqlalchemy_finds_tables_and_columns(service) -> None:
    service[0].session.execute("CREATE VIEW big AS SELECT k, name FROM t WHERE k > 1")
    engine = create_engine(f"postgresql+psycopg://ann@127.0.0.1:{service[1]}/x")
    with engine.connect() as connection:
        connection.execute(text("INSERT INTO t (k, name) VALUES (:k, :name)"), {"k": 7, "name": "x"})
        connection.commit()
        assert connection.execute(text("SELECT k, name FROM t")).all() == [(7, "x")]
    found = inspect(engine)
    assert found.get_table_names() == ["t"]
    assert found.get_materialized_view_names() == ["big"]
    columns = {column["name"]: (str(column["type"]), column["nullable"]) for column in found.get_columns("t")}
    assert columns == {
        "k": ("INTEGER", False),
        "name": ("TEXT", True),
        "price": ("DOUBLE PRECISION", True),
        "sold": ("BOOLEAN", True),
    }
    engine.dispose()


def test_views_are_made_and_listed_as_dbt_does(service) -> None:
    """dbt uses full names of relations, lists tables, views and materialized views, and asks for their
    dependencies."""
    name = '"dsms"."public"."big"'
    with connected(service[1]) as connection:
        made = connection.execute(f"/* by a tool */ create materialized view if not exists {name} as SELECT k FROM t;")
        assert made.statusmessage is not None and made.statusmessage.startswith("CREATE")
        assert connection.execute(f"SELECT * FROM {name}").fetchall() == []
        refreshed = connection.execute(f"refresh materialized view {name}")
        assert refreshed.statusmessage == "REFRESH MATERIALIZED VIEW"
        relations = [
            connection.execute(f"SELECT {kind}name FROM pg_{kind}s WHERE schemaname ILIKE 'public'").fetchall()
            for kind in ("table", "view", "matview")
        ]
        assert relations == [[("t",)], [], [("big",)]]
        needing = connection.execute("""
            SELECT c.relname FROM pg_class c JOIN pg_depend d ON d.refobjid = c.oid
            AND d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass AND d.deptype = 'i'
        """)
        assert needing.fetchall() == []
        connection.execute(f"DROP MATERIALIZED VIEW IF EXISTS {name} CASCADE")


def test_the_information_schema_lists_what_may_be_read(service) -> None:
    with connected(service[1]) as connection:
        listed = connection.execute(
            "SELECT column_name, data_type, is_nullable FROM information_schema.columns"
            " WHERE table_name = %s ORDER BY ordinal_position",
            ("t",),
        ).fetchall()
    assert listed[:2] == [("k", "integer", "NO"), ("name", "text", "YES")]


@pytest.mark.parametrize(
    "smuggled",
    [r"SELECT E'\'; CREATE MACRO sum(x) AS 0; --' FROM pg_class", "SELECT 1 FROM pg_class; DROP TABLE pg_class"],
)
def test_nothing_but_one_select_reaches_the_catalog(service, smuggled: str) -> None:
    """However the text is parsed, it does not create a macro."""
    with connected(service[1]) as connection:
        with contextlib.suppress(psycopg.Error):
            connection.execute(smuggled)
        asked = "SELECT sum(relnatts)::BIGINT FROM pg_catalog.pg_class WHERE relkind = 'r'"
        assert connection.execute(asked).fetchone() == (4,)


STARTUP = struct.pack("!ii", 8 + 9, 196608) + b"user\0a\0\0"


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(b"QPBDECSHXp~"), st.binary(max_size=40)), max_size=6), st.booleans())
def test_no_bytes_stop_the_server(sent: list[tuple[int, bytes]], whole: bool) -> None:
    """After any bytes of a client, the next client is served."""
    with served() as (_, port):
        with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
            client.settimeout(1)
            client.sendall(STARTUP if whole else b"".join(content for _, content in sent) or b"\0")
            for kind, content in sent if whole else []:
                client.sendall(bytes([kind]) + struct.pack("!i", len(content) + 4) + content)
            client.shutdown(socket.SHUT_WR)
            while client.recv(4096):
                pass
        with connected(port) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


MOMENTS = st.datetimes(datetime.datetime.fromisoformat("0001-01-02"), datetime.datetime.fromisoformat("9999-12-30"))
#: The OIDs of types, with values that psycopg can read.
BINARY = [
    (1114, MOMENTS), (1082, st.dates()), (1083, st.times()), (2950, st.uuids()),
    (1700, st.decimals(allow_nan=False, allow_infinity=False, places=9, min_value=-(10**20), max_value=10**20)),
    (1700, st.integers(-(10**37), 10**37).map(decimal.Decimal)), (20, st.integers(-(2**63), 2**63 - 1)),
]  # fmt: skip


@settings(max_examples=80)
@given(st.sampled_from(BINARY).flatmap(lambda kind: st.tuples(st.just(kind[0]), kind[1])))
def test_psycopg_reads_the_binary_form_of_values(drawn: tuple[int, object]) -> None:
    oid, value = drawn
    shown = value.isoformat() if isinstance(value, datetime.date | datetime.time) else str(value)
    data = writer_of(Type(oid, -1), binary=True)(shown)
    loader = psycopg.adapters.get_loader(oid, psycopg.pq.Format.BINARY)
    assert loader is not None
    read = loader(oid).load(data)
    assert (read, str(read)) == (value, str(value)) or read == value


SCHEMAS = """ IN (
    SELECT
      CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
    FROM
      generate_series(
        array_lower(string_to_array(current_setting('search_path'),','),1),
        array_upper(string_to_array(current_setting('search_path'),','),1)
      ) as i,
      string_to_array(current_setting('search_path'),',') s
    )"""
#: The questions of Grafana's data source about the server and the catalog.
GRAFANA = {
    "SELECT current_setting('server_version_num')::int/100 as version": [(1500,)],
    "SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'": [],
    f"""select quote_ident(table_name) as "table" from information_schema.tables where quote_ident(table_schema)
        not in ('information_schema', 'pg_catalog') and quote_ident(table_schema) {SCHEMAS}""": [("t",)],
    f"""select quote_ident(column_name) as "column", data_type as "type" from information_schema.columns where
        CASE WHEN array_length(parse_ident('t'),1) = 2 THEN quote_ident(table_schema) = (parse_ident('t'))[1]
        AND quote_ident(table_name) = (parse_ident('t'))[2] ELSE quote_ident(table_name) = 't'
        AND quote_ident(table_schema) {SCHEMAS} END""": [
        ("k", "integer"), ("name", "text"), ("price", "double precision"), ("sold", "boolean"),
    ],
    'SELECT floor(k/60)*60 AS "time", avg(price) AS "price" FROM t WHERE k BETWEEN 0 AND 59 GROUP BY 1 ORDER BY 1': [
        (0, 2.0)
    ],
}  # fmt: skip


@pytest.mark.parametrize("query", GRAFANA)
def test_queries_of_grafana(service, query: str) -> None:
    with connected(service[1]) as connection:
        connection.execute("INSERT INTO t (k, price) VALUES (1, 1.5), (2, 2.5)")
        assert connection.execute(query).fetchall() == GRAFANA[query]


def test_silent_connections_shut_nobody_out() -> None:
    """A connection takes one of the places of clients only after authentication. Of the others the oldest are
    closed."""
    token, known = new_token("ann", "reader")
    with served(Access((known,))) as (_, port), contextlib.ExitStack() as stack:
        silent = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
            for _ in range(server.MAX_ARRIVING + 5)
        ]
        with connected(port, password=token, connect_timeout=5) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        assert silent[0].recv(1) == b""


def test_clients_above_the_limit_are_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_CLIENTS", 2)
    with served() as (_, port), connected(port), connected(port) as second:
        with pytest.raises(psycopg.OperationalError, match="there are 2 clients already"):
            connected(port)
        second.close()
        for _ in range(100):
            with contextlib.suppress(psycopg.OperationalError), connected(port) as again:
                assert again.execute("SELECT 1").fetchone() == (1,)
                return
        raise AssertionError("a place that is free again is not given")


def test_hints_list_what_may_be_read() -> None:
    token, known = new_token("ann", "writer", write=("ann_*",))
    with served(Access((known,))) as (made, port), connected(port, password=token) as connection:
        made.session.execute(f"{TABLE}; CREATE VIEW ann_v AS SELECT k FROM t")
        for sql in ("DROP VIEW ann_q17_total", "INSERT INTO ann_v VALUES (1)"):
            with pytest.raises(psycopg.Error) as refused:
                connection.execute(sql)
            assert refused.value.diag.message_hint in (None, "have: ann_v")
