"""One-time statements in separate processes: they give DuckDB's answers, within limits, and the pool survives them."""

from __future__ import annotations

import datetime
import json
import math
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pyarrow as pa
import pytest

from dsms.local.waiting import wait_until
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.limits import Limits
from dsms.statements.registry import parse
from dsms.tables.one_time_query import OneTimeQueryWithRows, one_time_query_of
from dsms.tables.select_budget import Budget, Cancelled, LimitExceeded, TookTooLong, TooManySelects
from dsms.tables.select_pool import SelectPool
from operators.core.distinct_type import DistinctType
from operators.core.errors import SqlError

#: A statement that reads nothing and never ends.
ENDLESS = "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
LIMITS = Limits(selects=2, selects_waiting=1, select_seconds=60, select_memory_mb=96, select_rows=100, relation_mb=1)


@pytest.fixture
def pool() -> Iterator[SelectPool]:
    made = SelectPool(LIMITS, 2)
    yield made
    made.close()


def ask(pool: SelectPool, sql: str, limits: Limits | None = None, **relations: pa.Table) -> list[list[object]]:
    with pool.admitted() as budget:
        reply = pool.reply(OneTimeQueryWithRows(sql, relations), "json", budget)
    rows: list[list[object]] = json.loads(reply.rows)
    assert reply.count == len(rows)
    return rows


def test_numbers_that_are_not_finite_are_null_in_json_and_themselves_as_values(pool: SelectPool) -> None:
    given = pa.table({"k": [1, 2, 3, 4], "d": [float("inf"), None, 1.5, float("-inf")]})
    with pool.admitted() as budget:
        asked = OneTimeQueryWithRows("SELECT d, k, CAST('NaN' AS FLOAT) AS f FROM r ORDER BY k", {"r": given})
        reply = pool.reply(asked, "json", budget)
    assert json.loads(reply.rows) == [[None, 1, None], [None, 2, None], [1.5, 3, None], [None, 4, None]]
    rows = reply.encoded[:]
    assert [row[:2] for row in rows] == [(float("inf"), 1), (None, 2), (1.5, 3), (float("-inf"), 4)]
    assert all(isinstance(row[2], float) and math.isnan(row[2]) for row in rows)


def pid_of(pool: SelectPool) -> int:
    (process,) = pool._idle
    return process.pid


def test_rows_are_what_a_row_is_in_json(pool: SelectPool) -> None:
    given = pa.table(
        {
            "i": pa.array([1, None], pa.int64()),
            "d": pa.array([datetime.date(2024, 1, 2), None]),
            "t": pa.array([1_704_164_645_000_000, None], pa.timestamp("us")),
            "l": pa.array([["a"], []]),
            "s": pa.array([{"x": 1}, None]),
            "b": pa.array([b"ab", None]),
            "f": pa.array([1.5, float("nan")]),
        }
    )
    assert ask(pool, "SELECT * FROM given", given=given) == [
        [1, "2024-01-02", "2024-01-02T03:04:05", ["a"], {"x": 1}, "YWI=", 1.5],
        [None, None, None, [], None, None, None],
    ]
    assert ask(pool, "SELECT sum(i), sum(i) * 1.50 FROM given", given=given) == [[1, "1.50"]]


def test_columns_of_types_of_ours_are_cast(pool: SelectPool) -> None:
    identity = "00000000-0000-0000-0000-00000000000a"
    stored = pa.ExtensionArray.from_storage(DistinctType("UUID", pa.string()), pa.array([identity]))
    sql = "SELECT id FROM given WHERE id = '0000000000000000000000000000000A'::UUID"
    assert ask(pool, sql, given=pa.table({"id": stored})) == [[identity]]


def test_rows_as_arrow(pool: SelectPool) -> None:
    with pool.admitted() as budget:
        rows = pool.rows(
            OneTimeQueryWithRows("SELECT a + 1 AS b FROM given", {"given": pa.table({"a": range(1_000)})}), budget
        )
    assert rows.column("b").to_pylist() == list(range(1, 1_001))


def test_a_refused_query_leaves_the_process_for_the_next(pool: SelectPool) -> None:
    assert ask(pool, "SELECT 1") == [[1]]
    pid = pid_of(pool)
    with pytest.raises(SqlError, match='Referenced column "no" not found'):
        ask(pool, "SELECT no FROM given", given=pa.table({"a": [1]}))
    with pytest.raises(LimitExceeded, match='more than 100 rows; the limit "select_rows" is set by DSMS_LIMITS'):
        ask(pool, "SELECT * FROM given", given=pa.table({"a": range(101)}))
    assert ask(pool, "SELECT 2") == [[2]]
    assert pid_of(pool) == pid


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT length(repeat('x', 1000000000))",
        "SELECT len(list(a.x)) FROM given a, given b, given c, given d",
        "SELECT length(string_agg(repeat('x', 100000), '')) FROM given a, given b",
        "SELECT count(*) FROM (SELECT a.x, repeat('y', 1000) AS y FROM given a, given b, given c ORDER BY y, a.x, b.x)",
        "SELECT count(DISTINCT a.x * 1000000 + b.x * 10000 + c.x * 100 + d.x) FROM given a, given b, given c, given d",
    ],
)
def test_memory_is_limited(pool: SelectPool, sql: str) -> None:
    with pytest.raises(LimitExceeded, match="select_memory_mb"):
        ask(pool, sql, given=pa.table({"x": range(100)}))
    assert ask(pool, "SELECT 2") == [[2]]


def test_the_size_of_an_answer_is_limited() -> None:
    pool = SelectPool(Limits(select_result_mb=1), 1)
    try:
        with pytest.raises(LimitExceeded, match='more than 1 MB; the limit "select_result_mb" is set by DSMS_LIMITS'):
            ask(pool, "SELECT repeat('x', 100000) FROM given", given=pa.table({"x": range(100)}))
        with pool.admitted() as budget, pytest.raises(LimitExceeded, match="select_result_mb"):
            given = {"given": pa.table({"x": range(100)})}
            pool.rows(OneTimeQueryWithRows("SELECT repeat('x', 100000) AS x FROM given", given), budget)
    finally:
        pool.close()


@pytest.mark.parametrize(
    "sql",
    [ENDLESS, "SELECT count(*) FROM given a, given b, given c, given d, given e, given f WHERE a.x + f.x * e.x = b.x"],
)
def test_time_is_limited(sql: str) -> None:
    pool = SelectPool(Limits(select_seconds=1, select_memory_mb=1_000), 1)
    try:
        with pytest.raises(TookTooLong, match='ended after 1 s; the limit "select_seconds" is set by DSMS_LIMITS'):
            ask(pool, sql, given=pa.table({"x": range(1_000)}))
    finally:
        pool.close()


def test_a_cancelled_statement_ends_its_process(pool: SelectPool) -> None:
    cancelled = threading.Event()
    started: list[int] = []

    def run() -> None:
        with pool.admitted(cancelled) as budget:
            pool.reply(OneTimeQueryWithRows(ENDLESS, {}), "json", budget)

    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(run)
        assert wait_until(lambda: bool(started.extend(workers()) or started), 30)
        cancelled.set()
        with pytest.raises(Cancelled):
            running.result(30)
    assert not any(psutil.pid_exists(pid) for pid in started)


def workers() -> list[int]:
    return [
        child.pid for child in psutil.Process().children() if "dsms.tables.select_worker" in " ".join(child.cmdline())
    ]


def test_more_statements_than_places_wait_or_are_refused(pool: SelectPool) -> None:
    cancelled, inside = threading.Event(), threading.Barrier(3)

    def hold() -> None:
        with pool.admitted():
            inside.wait(30)
            cancelled.wait(30)

    def wait() -> list[list[object]]:
        return ask(pool, "SELECT 1")

    with ThreadPoolExecutor(3) as threads:
        holding = [threads.submit(hold) for _ in range(2)]
        inside.wait(30)
        waiting = threads.submit(wait)
        assert wait_until(lambda: pool._admitted_count == 3, 30)
        with (
            pytest.raises(TooManySelects, match='2 are running and 1 wait.*"selects"'),
            pool.admitted(),
        ):
            pass
        assert not waiting.done()
        cancelled.set()
        assert waiting.result(30) == [[1]]
        for place in holding:
            place.result(30)


def test_select_that_waits_too_long_is_refused_as_busy() -> None:
    pool = SelectPool(Limits(selects_waiting=1, select_seconds=1), 1)
    with pool.admitted(), pytest.raises(TooManySelects), pool.admitted():
        pass
    with pool.admitted():
        pass


def test_a_process_that_dies_between_statements_is_replaced(pool: SelectPool) -> None:
    ask(pool, "SELECT 1")
    (process,) = pool._idle
    os.kill(process.pid, signal.SIGKILL)
    assert wait_until(lambda: not process.alive, 30)
    assert ask(pool, "SELECT 2") == [[2]]


def test_a_process_that_dies_during_a_statement_is_an_error_and_replaced(pool: SelectPool) -> None:
    ask(pool, "SELECT 1")
    process = psutil.Process(pid_of(pool))
    before = process.cpu_times().user
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(ask, pool, ENDLESS)
        assert wait_until(lambda: process.cpu_times().user > before + 0.1, 30), "it has not begun"
        process.kill()
        message = r"the process that answered the statement died \(signal 9\).* MB of memory; .*DSMS_LIMITS"
        with pytest.raises(LimitExceeded, match=message):
            running.result(30)
    assert ask(pool, "SELECT 2") == [[2]]


def test_a_process_knows_nothing_of_the_environment_and_can_write_no_file(
    pool: SelectPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DSMS_SECRET_OF_TEST", "secret")
    ask(pool, "SELECT 1")
    process = psutil.Process(pid_of(pool))
    assert "DSMS_SECRET_OF_TEST" not in process.environ()
    assert process.rlimit(psutil.RLIMIT_FSIZE) == (0, 0)
    assert Path(f"/proc/{process.pid}/oom_score_adj").read_text().strip() == "1000"
    with pytest.raises(SqlError, match="file system operations are disabled"):
        ask(pool, "SELECT * FROM read_csv('/etc/passwd')")
    with pytest.raises(SqlError, match="locked"):
        ask(pool, "SET threads = 2")


def test_select_process_runs_at_low_priority() -> None:
    pool = SelectPool(LIMITS, 1, niceness=7)
    try:
        ask(pool, "SELECT 1")
        pid = pid_of(pool)
        lowered = psutil.Process(pid).nice() - psutil.Process().nice()
        assert (lowered, os.getsid(pid)) == (7, pid)
    finally:
        pool.close()


def test_a_process_ends_with_its_parent(pool: SelectPool) -> None:
    ask(pool, "SELECT 1")
    (process,) = pool._idle
    process._channel.close()
    assert wait_until(lambda: not process.alive, 30)


def asked_of_language(sql: str, rows: pa.Table) -> OneTimeQueryWithRows:
    (statement,) = parse(sql)
    assert isinstance(statement, st.Select)
    return one_time_query_of(statement.select, Catalog(), {"t": rows}).over(lambda _: rows)


def test_the_engine_computes_expressions_in_the_process_and_what_it_had_to_is_forgotten(pool: SelectPool) -> None:
    rows = pa.table({"a": pa.array(range(101), pa.int32()), "s": ["É"] * 101})

    def answered(sql: str) -> list[list[object]]:
        with pool.admitted() as budget:
            return json.loads(pool.reply(asked_of_language(sql, rows), "json", budget).rows)

    assert answered("SELECT LOWER(s), SUM(a + 1) FROM t WHERE a % 50 = 1 GROUP BY LOWER(s)") == [["é", 54]]
    with pytest.raises(LimitExceeded, match="more than 100 rows"):
        answered("SELECT a + 1 FROM t")
    with pytest.raises(SqlError, match='^line 1, column 8: division by zero in "10 / a"$'):
        answered("SELECT 10 / a FROM t")
    with pytest.raises(SqlError, match='^line 1, column 8: column "b" not found; have: a, s$'):
        answered("SELECT b + 1 FROM t")
    assert answered("SELECT a * 2 FROM t WHERE a = 3") == [[6]]
    assert len(pool._idle) == 1


def test_the_start_of_a_process_takes_no_time_of_the_statement(pool: SelectPool) -> None:
    with pool.admitted() as budget:
        deadline = budget.deadline
        assert json.loads(pool.reply(OneTimeQueryWithRows("SELECT 1", {}), "json", budget).rows) == [[1]]
        started = budget.deadline
        assert started > deadline + 0.05  # no interpreter starts faster
        assert json.loads(pool.reply(OneTimeQueryWithRows("SELECT 2", {}), "json", budget).rows) == [[2]]
        assert budget.deadline == started


def test_time_that_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    budget = Budget.of(Limits(select_seconds=10))
    with budget.uncounted():
        now[0] = 150.0
        budget.check()
        budget.cancelled.set()
        with pytest.raises(Cancelled):
            budget.check()
    budget.cancelled.clear()
    now[0] = 159.0
    budget.check()
    now[0] = 161.0
    with pytest.raises(TookTooLong):
        budget.check()
