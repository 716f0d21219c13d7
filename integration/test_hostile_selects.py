"""SELECTs that would take too much time or memory or all processes are refused or ended; other calls are served
meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import psutil
import pytest

from dsms.local.waiting import wait_until
from integration.cluster import Cluster, Refused, running
from integration.session_services import Services

SECONDS, ROWS = 3, 3_000
LIMITS = (
    f"select_seconds={SECONDS} select_memory_mb=128 select_rows=5000 select_result_mb=1 selects=2 selects_waiting=1 "
    "relation_mb=1"
)
ENDLESS = "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
OUT_OF_TIME = 408
#: The number of attempts for a short SELECT that may time out on a busy machine.
_TRIES = 4
CROSS = "FROM numbers a, numbers b, numbers c, numbers d"


@pytest.fixture(scope="module")
def cluster(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A coordinator with a table of numbers and one of long texts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DSMS_LIMITS", LIMITS)
        with running(*services, tmp_path_factory.mktemp("hostile")) as cluster:
            cluster.sql("CREATE TABLE numbers (n INT PRIMARY KEY); CREATE TABLE texts (n INT PRIMARY KEY, t VARCHAR)")
            for part in (range(ROWS // 2), range(ROWS // 2, ROWS)):
                answered(cluster, f"INSERT INTO numbers VALUES {', '.join(f'({n})' for n in part)}")
            answered(cluster, "INSERT INTO texts SELECT n, repeat('x', 1000) FROM numbers WHERE n < 900")
            yield cluster


def answered(cluster: Cluster, sql: str) -> list[list[object]]:
    """The rows of a short SELECT. It is repeated after a timeout, as other tests may occupy the processors."""
    for _ in range(_TRIES - 1):
        try:
            return list(cluster.sql(sql)[-1]["rows"])
        except Refused as refused:
            if refused.status != OUT_OF_TIME:
                raise
    return list(cluster.sql(sql)[-1]["rows"])


def refusal(cluster: Cluster, sql: str) -> tuple[int, str, str]:
    """Status, kind, and message with hint, of the refusal of a statement."""
    with pytest.raises(Refused) as refused:
        cluster.sql(sql)
    error = refused.value.error
    return refused.value.status, error["kind"], f"{error['message']}; {error['hint']}"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT unnest(range(30000)), unnest(range(30000))",
        "SELECT * FROM range(30000), range(30000)",
        "SELECT list(unnest(range(120000000)))",
        "SELECT pg_sleep(60)",
        "SELECT sleep_ms(60000)",
        "SELECT write_log('x')",
        "SELECT current_setting('threads')",
        "SELECT getvariable('x')",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_parquet('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM duckdb_settings()",
        "PRAGMA version",
        "ATTACH '/tmp/x.db'",
        "COPY (SELECT 1) TO '/tmp/x'",
        "SET threads = 8",
        "INSERT INTO numbers SELECT * FROM range(1000000000)",
        "UPDATE numbers SET n = n + getvariable('x')",
    ],
)
def test_constructs_outside_the_language_are_refused(cluster: Cluster, sql: str) -> None:
    assert refusal(cluster, sql)[:2] == (400, "sql")


@pytest.mark.parametrize(
    ("sql", "limit"),
    [
        (f"SELECT length(string_agg(repeat('x', 100000), '')) {CROSS}", "select_memory_mb"),
        (f"SELECT cardinality(array_agg(a.n)) {CROSS}", "select_memory_mb"),
        (f"SELECT repeat('x', 100000) AS t {CROSS} ORDER BY a.n + d.n, t", "select_memory_mb"),
        ("SELECT a.n, b.n FROM numbers a, numbers b WHERE b.n < 2", "select_rows"),
        ("SELECT repeat('x', 1000) FROM numbers", "select_result_mb"),
        ("SELECT repeat(t, 2) FROM texts", "select_result_mb"),
    ],
)
def test_memory_and_answers_are_bounded(cluster: Cluster, sql: str, limit: str) -> None:
    status, kind, message = refusal(cluster, sql)
    for _ in range(3):
        if status == OUT_OF_TIME:  # on a busy machine it may time out before it exceeds its memory
            status, kind, message = refusal(cluster, sql)
    assert (status, kind) == (400, "limit")
    assert f'"{limit}"' in message and "DSMS_LIMITS" in message


def test_a_value_that_is_too_large_is_refused(cluster: Cluster) -> None:
    status, kind, message = refusal(cluster, "SELECT length(repeat('x', 1000000000))")
    assert (status, kind) == (400, "sql") and "text longer than 1000000 bytes" in message


@pytest.mark.parametrize(
    "sql",
    [
        ENDLESS,
        f"SELECT count(*) {CROSS} WHERE a.n * b.n + c.n = d.n",
        f"SELECT sum(CAST(a.n AS DECIMAL(38, 10)) * b.n / (1 + c.n)) {CROSS}",
    ],
)
def test_time_is_bounded_and_other_calls_are_answered_meanwhile(cluster: Cluster, sql: str) -> None:
    with ThreadPoolExecutor(1) as threads:
        began = time.monotonic()
        running_select = threads.submit(refusal, cluster, sql)
        assert answered(cluster, "SELECT count(*) FROM numbers") == [[ROWS]]
        cluster.sql("INSERT INTO texts VALUES (1000, 'meanwhile'); DELETE FROM texts WHERE n = 1000")
        assert cluster.get("status")["cluster"] == cluster.name
        assert not running_select.done() or time.monotonic() - began >= SECONDS
        status, kind, message = running_select.result(60)
    assert (status, kind) == (OUT_OF_TIME, "limit")
    assert f"ended after {SECONDS} s" in message and '"select_seconds"' in message


def test_a_statement_that_writes_is_bounded_and_does_nothing(cluster: Cluster) -> None:
    assert (
        refusal(cluster, f"INSERT INTO texts SELECT count(*), 'x' {CROSS} WHERE a.n * b.n + c.n = d.n")[0]
        == OUT_OF_TIME
    )
    assert refusal(cluster, "UPDATE texts SET t = repeat(t, 2)")[0] == 400
    assert answered(cluster, "SELECT count(*), max(length(t)) FROM texts") == [[900, 1000]]


def test_size_of_read_relations_is_limited(cluster: Cluster) -> None:
    cluster.sql("CREATE TABLE large (n INT PRIMARY KEY, t VARCHAR)")
    for start in (0, 700):
        cluster.sql(f"INSERT INTO large SELECT n, repeat('x', 1000) FROM numbers WHERE n < 700 AND n + {start} >= 0")
        if start == 0:
            cluster.sql("UPDATE large SET n = n + 10000")
    assert '"large" has more than 1 MB to read; the limit "relation_mb"' in refusal(cluster, "SELECT n FROM large")[2]
    with pytest.raises(Refused) as refused:
        cluster.get("queries/large/relation?limit=1")
    assert (refused.value.status, refused.value.error["kind"]) == (400, "limit")
    assert cluster.get("queries/texts/relation?limit=2")["total"] == 900


def test_selects_above_the_limit_are_refused_as_busy(cluster: Cluster) -> None:
    with ThreadPoolExecutor(8) as threads:
        every = [threads.submit(httpx.post, f"{cluster.url}/v1/statements", **asked(ENDLESS)) for _ in range(8)]
        statuses = sorted(each.result().status_code for each in every)
    assert statuses.count(429) >= 4
    assert set(statuses) <= {OUT_OF_TIME, 429}
    refused = next(each.result() for each in every if each.result().status_code == 429)
    assert refused.json()["error"]["kind"] == "busy"
    assert refused.headers["retry-after"]
    assert answered(cluster, "SELECT 1") == [[1]]


def asked(sql: str) -> dict[str, object]:
    return {"json": {"sql": sql}, "timeout": 60, "trust_env": False}


def test_select_ends_when_its_client_disconnects(cluster: Cluster) -> None:
    assert answered(cluster, "SELECT 1") == [[1]]
    before = workers(cluster)
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{cluster.url}/v1/statements", json={"sql": ENDLESS}, timeout=1, trust_env=False)
    assert wait_until(lambda: workers(cluster) != before, 120)


def workers(cluster: Cluster) -> set[int]:
    """The processes that answer SELECTs: the coordinator has no other children."""
    assert cluster.coordinator.pid is not None
    return {child.pid for child in psutil.Process(cluster.coordinator.pid).children()}


def test_the_processes_end_with_the_coordinator_and_a_killed_one_is_replaced(cluster: Cluster) -> None:
    assert cluster.coordinator.pid is not None
    assert answered(cluster, "SELECT 1") == [[1]]
    children = psutil.Process(cluster.coordinator.pid).children()
    assert children and all("dsms.tables.select_worker" in " ".join(child.cmdline()) for child in children)
    for child in children:
        child.kill()
    psutil.wait_procs(children, 10)
    assert answered(cluster, "SELECT 2") == [[2]]
    children = psutil.Process(cluster.coordinator.pid).children()
    cluster.coordinator.kill()
    assert psutil.wait_procs(children, 30)[1] == []
