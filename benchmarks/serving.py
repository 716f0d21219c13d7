"""Rows of a view by its key and by an index, and a dashboard over it: `python -m benchmarks.serving`.

A view has the last values, by key, of the rows in a topic. A client reads random rows of the view: through the port for
clients of PostgreSQL by prepared and by simple statements, and through REST; then several clients of pgbench read at a
time. A dashboard of ten panels is refreshed every second. Meanwhile `--changes` rows change each second. DuckDB reads
the same rows, as an Arrow table in the process of the client, and a PostgreSQL server, if it is installed, holds the
same rows, which do not change there; both in the same run. Prints the ratios, and writes `benchmarks/out/serving.json`.
"""

from __future__ import annotations

import argparse
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import httpx
import numpy as np
import psycopg
import pyarrow as pa
from confluent_kafka import Producer

from benchmarks.cluster import Cluster, report, running_cluster
from benchmarks.pgbench import program, rate_of
from benchmarks.postgres_peer import ABSENT, fill, running_postgres
from benchmarks.report import Peer, Result, write_report
from dsms.local.waiting import wait_until
from operators.core.errors import ExternalError

OUT = Path(__file__).parent / "out" / "serving.json"
#: The aims: milliseconds in the median and for 99 of 100, and reads a second.
_P50_MS, _P99_MS, _RATE = 5.0, 20.0, 2_000.0
_WARM_UP, _PAUSE_S, _READY_S, _TICK_S = 20, 0.002, 600.0, 0.01
Read = Callable[[int], None]
#: The panels of the dashboard, over a relation with the columns k, g (100 groups) and v.
PANELS = (
    "SELECT count(*) FROM {}",
    "SELECT sum(v) FROM {}",
    "SELECT max(v), min(v) FROM {}",
    "SELECT g, count(*) FROM {} GROUP BY g ORDER BY g",
    "SELECT g, avg(v) FROM {} GROUP BY g ORDER BY 2 DESC LIMIT 5",
    "SELECT k, v FROM {} ORDER BY v DESC LIMIT 10",
    "SELECT count(*) FROM {} WHERE g = 7",
    "SELECT k, v FROM {} WHERE v BETWEEN 100 AND 140 ORDER BY v",
    "SELECT v FROM {} WHERE k = 7",
    "SELECT k, v FROM {} WHERE k IN (1, 2, 3)",
)


def main() -> None:
    """Measures and writes the report."""
    given = _options()
    results: list[Result] = []
    with running_cluster() as cluster, running_postgres() as postgres:
        if postgres is None:
            report(ABSENT)
        cluster.api.execute(f'ALTER EXECUTOR "executor-1" SET (trigger_interval_seconds = {given.interval})')
        for rows in given.rows:
            _prepare(cluster, rows)
            if postgres is not None:
                fill(postgres, f"v{rows}", rows)
            with _changing(cluster, rows, given.changes) as changes:
                for result in _measured(cluster, postgres, rows, given):
                    report(_line(result))
                    results.append(result)
            results.append(Result(f"{rows:,} rows, changed meanwhile", changes.rate(), "rows/s"))
    write_report(given.out, results, {} if postgres else {"PostgreSQL": ABSENT})


def _line(result: Result) -> str:
    """A figure, and its ratio to that of the peer."""
    ratio = "" if result.peer is None else f", {result.value / result.peer.value:.2f} times {result.peer.name}"
    return f"{result.name}: {result.value:.1f} {result.unit}{ratio}"


def _prepare(cluster: Cluster, rows: int) -> None:
    """Writes rows (k, k % 100, 2 k) to a topic, and creates a view of their last values by k, with an index; waits
    until it has all rows."""
    cluster.api.execute(f"""
        REGISTER SOURCE s{rows} (k INT NOT NULL, g INT, v INT) FROM "rows-{rows}" PARTITIONS 1;
        CREATE STREAM by_key{rows} OVER s{rows} KEY k;
        CREATE VIEW v{rows} AS SELECT k, g, v FROM R(by_key{rows});
        CREATE INDEX ON v{rows} (v)""")
    producer = cluster.kafka.producer()
    for key in range(rows):
        _write(producer, rows, key, key % 100)
    producer.flush()
    with _connection(cluster) as client:
        if not wait_until(partial(_complete, client, rows), _READY_S):
            raise ExternalError(f"the view of {rows} rows is not complete after {_READY_S:g} s")
    report(f"a view of {rows:,} rows is ready")


def _write(producer: Producer, rows: int, key: int, group: int) -> None:
    """Sends a row once the producer has room for it."""
    value = f'{{"k":{key},"g":{group},"v":{2 * key}}}'.encode()
    try:
        producer.produce(f"rows-{rows}", value, partition=0)
    except BufferError:
        producer.poll(1)
        producer.produce(f"rows-{rows}", value, partition=0)
    producer.poll(0)


def _complete(client: psycopg.Connection, rows: int) -> bool:
    try:
        return client.execute(f"SELECT count(*) FROM v{rows}").fetchall() == [(rows,)]
    except psycopg.Error:  # it has no final instant yet
        return False


def _connection(cluster: Cluster) -> psycopg.Connection:
    return psycopg.connect(_address(cluster), autocommit=True, prepare_threshold=0)


def _address(cluster: Cluster) -> str:
    return f"postgresql://bench@{cluster.state.postgres}/dsms"


@dataclass
class _Changes:
    """How many rows have changed, since when."""

    count: int = 0
    began: float = field(default_factory=time.monotonic)

    def rate(self) -> float:
        """Changes a second."""
        return self.count / (time.monotonic() - self.began)


@contextmanager
def _changing(cluster: Cluster, rows: int, wanted: int) -> Iterator[_Changes]:
    """While the block runs, gives rows other groups, `wanted` a second."""
    ended, changes, producer = threading.Event(), _Changes(), cluster.kafka.producer()

    def write() -> None:
        while not ended.wait(_TICK_S):
            due = int((time.monotonic() - changes.began) * wanted)
            for _ in range(due - changes.count):
                _write(producer, rows, random.randrange(rows), random.randrange(100))
            changes.count = due
        producer.flush()

    writer = threading.Thread(target=write)
    if wanted:
        writer.start()
    try:
        yield changes
    finally:
        ended.set()
        if wanted:
            writer.join()


def _measured(cluster: Cluster, postgres: str | None, rows: int, given: argparse.Namespace) -> Iterator[Result]:
    keys = np.arange(rows, dtype=np.int32)
    arrow = pa.table({"k": keys, "g": keys % 100, "v": 2 * keys})
    with _connection(cluster) as client, duckdb.connect() as database, httpx.Client(trust_env=False) as http:
        database.register(f"v{rows}", arrow)
        other = psycopg.connect(postgres, autocommit=True, prepare_threshold=0) if postgres else None
        peers = [("DuckDB over Arrow", lambda sql: database.execute(sql).fetchall())]
        peers += [("PostgreSQL", lambda sql: other.execute(sql).fetchall())] if other else []
        yield from _compared(f"{rows:,} rows, prepared", partial(_prepared, client, rows), peers, rows, given.reads)
        simple = partial(_simple, psycopg.ClientCursor(client), rows)
        yield from _compared(f"{rows:,} rows, simple", simple, peers, rows, given.reads)
        yield from _compared(f"{rows:,} rows, REST", partial(_rest, http, cluster.url, rows), peers, rows, given.reads)
        index = partial(_by_index, client.execute, rows)
        yield from _compared(f"{rows:,} rows, by index", index, peers, rows, given.reads // 5, index=True)
        yield from _dashboard(rows, client, peers, given.seconds)
        if other:
            other.close()
    yield from _together(cluster, postgres, rows, given)


def _together(cluster: Cluster, postgres: str | None, rows: int, given: argparse.Namespace) -> Iterator[Result]:
    """How many rows a second several clients read together, and how long they wait for a row."""
    if postgres is None or program() is None:
        return
    script = f"\\set k random(0, {rows - 1})\nSELECT k, v FROM v{rows} WHERE k = :k;\n"
    found, theirs = (rate_of(script, each, given.clients, given.seconds) for each in (_address(cluster), postgres))
    name, peer = f"{rows:,} rows, {given.clients} clients", "PostgreSQL"
    yield Result(name, found.a_second, "reads/s", aim=_RATE, peer=Peer(peer, theirs.a_second))
    yield Result(f"{name}, 50 of 100", found.p50_ms, "ms", "lower", _P50_MS, Peer(peer, theirs.p50_ms))
    yield Result(f"{name}, 99 of 100", found.p99_ms, "ms", "lower", _P99_MS, Peer(peer, theirs.p99_ms))


Run = Callable[[str], Any]


def _compared(
    name: str, read: Read, peers: Sequence[tuple[str, Run]], rows: int, reads: int, *, index: bool = False
) -> Iterator[Result]:
    """The latencies of reads, beside those of the peers."""
    found = _latencies(read, rows, reads)
    for peer, run in peers:
        by = (lambda k, run=run: _by_index(run, rows, k)) if index else (lambda k, run=run: run(_by_key(rows, k)))
        theirs = _latencies(by, rows, reads)
        for percent, aim in ((50, _P50_MS), (99, _P99_MS)):
            other = Peer(peer, float(np.percentile(theirs, percent)))
            value = float(np.percentile(found, percent))
            yield Result(f"{name}, {percent} of 100", value, "ms", "lower", aim, other)


def _by_key(rows: int, key: int) -> str:
    return f"SELECT k, v FROM v{rows} WHERE k = {key}"


def _latencies(read: Read, rows: int, reads: int) -> list[float]:
    """The times of reads of random keys, in milliseconds."""
    found = []
    for number in range(_WARM_UP + reads):
        key, began = random.randrange(rows), time.perf_counter()
        read(key)
        if number >= _WARM_UP:
            found.append(1_000 * (time.perf_counter() - began))
        time.sleep(_PAUSE_S)
    return found


def _prepared(client: psycopg.Connection, rows: int, key: int) -> None:
    _check(client.execute(f"SELECT k, v FROM v{rows} WHERE k = %s", (key,)).fetchall(), key)


def _simple(cursor: psycopg.ClientCursor[tuple[object, ...]], rows: int, key: int) -> None:
    _check(cursor.execute(_by_key(rows, key)).fetchall(), key)


def _rest(http: httpx.Client, url: str, rows: int, key: int) -> None:
    answer = http.post(f"{url}/v1/statements", json={"sql": _by_key(rows, key)})
    _check([tuple(row) for row in answer.raise_for_status().json()["results"][0]["rows"]], key)


def _by_index(run: Run, rows: int, key: int) -> None:
    found = run(f"SELECT k, v FROM v{rows} WHERE v BETWEEN {2 * key} AND {2 * key + 1}")
    _check(list(found), key)


def _check(found: Sequence[tuple[object, ...]], key: int) -> None:
    if list(found) != [(key, 2 * key)]:
        raise ExternalError(f"the row of key {key} was read as {found}")


def _dashboard(
    rows: int, client: psycopg.Connection, peers: Sequence[tuple[str, Run]], seconds: float
) -> Iterator[Result]:
    """The time in which all panels are refreshed, each second."""
    own = list(_refreshes(lambda sql: client.execute(sql).fetchall(), rows, seconds))
    for name, run in peers:
        theirs = list(_refreshes(run, rows, min(seconds, 5.0)))
        for percent in (50, 99):
            peer = Peer(name, float(np.percentile(theirs, percent)))
            label = f"{rows:,} rows, ten panels, {percent} of 100"
            yield Result(label, float(np.percentile(own, percent)), "ms", "lower", 1_000.0, peer)


def _refreshes(run: Run, rows: int, seconds: float) -> Iterable[float]:
    ended = time.monotonic() + seconds
    while time.monotonic() < ended:
        began = time.perf_counter()
        for panel in PANELS:
            run(panel.format(f"v{rows}"))
        took = time.perf_counter() - began
        yield 1_000 * took
        time.sleep(max(0.0, 1.0 - took))


def _options(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 100_000, 1_000_000], help="sizes of the views")
    parser.add_argument("--reads", type=int, default=500, help="reads of each kind whose latencies are measured")
    parser.add_argument("--clients", type=int, default=8, help="clients that read at a time")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long these clients and the dashboard read")
    parser.add_argument("--changes", type=int, default=10_000, help="rows that change a second meanwhile; 0: none")
    parser.add_argument("--interval", type=float, default=0.5, help="trigger interval of the executor, in seconds")
    parser.add_argument("--out", type=Path, default=OUT)
    return parser.parse_args(given)


if __name__ == "__main__":
    main()
