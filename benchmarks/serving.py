"""One row of a view by its key: `python -m benchmarks.serving`.

A table and a view of it have the given numbers of rows. Clients read random rows of the view: through the port for
clients of PostgreSQL by prepared and by simple statements, and through REST, one at a time and several at a time.
With `--written` a client changes rows of the table meanwhile. DuckDB reads the same rows, as an Arrow table in the
process of the client, in the same run: its times are given beside each latency. Writes `benchmarks/out/serving.json`.
"""

from __future__ import annotations

import argparse
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import duckdb
import httpx
import numpy as np
import psycopg
import pyarrow as pa

from benchmarks.cluster import Cluster, report, running_cluster
from benchmarks.report import Peer, Result, write_report
from dsms.local.waiting import wait_until
from operators.core.errors import ExternalError

OUT = Path(__file__).parent / "out" / "serving.json"
#: Rows in an INSERT, and the aims: milliseconds in the median and for 99 of 100, and reads a second.
_PIECE, _P50_MS, _P99_MS, _RATE = 1_000, 5.0, 20.0, 2_000.0
_WARM_UP, _PAUSE_S, _READY_S = 20, 0.002, 300.0
Read = Callable[[int], None]


def main() -> None:
    """Measures and writes the report."""
    given = _options()
    results: list[Result] = []
    with running_cluster() as cluster:
        for rows in given.rows:
            _prepare(cluster, rows)
            with _writing(cluster, rows, enabled=given.written):
                results += _measured(cluster, rows, given.reads, given.clients, given.seconds)
    write_report(given.out, results)


def _prepare(cluster: Cluster, rows: int) -> None:
    """Creates a table with rows (k, 2 k), and a view of it that has them all."""
    cluster.api.execute(f"CREATE TABLE t{rows} (k INT PRIMARY KEY, v INT)")
    for first in range(0, rows, _PIECE):
        values = ", ".join(f"({k}, {2 * k})" for k in range(first, min(first + _PIECE, rows)))
        cluster.api.execute(f"INSERT INTO t{rows} VALUES {values}")
    cluster.api.execute(f"CREATE VIEW v{rows} AS SELECT k, v FROM t{rows}")
    with _connection(cluster) as client:
        if not wait_until(partial(_complete, client, rows), _READY_S):
            raise ExternalError(f"the view of {rows} rows is not complete after {_READY_S:g} s")
    report(f"a view of {rows:,} rows is ready")


def _complete(client: psycopg.Connection, rows: int) -> bool:
    try:
        return client.execute(f"SELECT count(*) FROM v{rows}").fetchall() == [(rows,)]
    except psycopg.Error:  # it has no final instant yet
        return False


def _connection(cluster: Cluster) -> psycopg.Connection:
    return psycopg.connect(f"postgresql://bench@{cluster.state.postgres}/dsms", autocommit=True, prepare_threshold=0)


@contextmanager
def _writing(cluster: Cluster, rows: int, *, enabled: bool) -> Iterator[None]:
    """Writes rows of the table as they are, one statement after another, while the block runs, if it is enabled."""
    ended = threading.Event()

    def write() -> None:
        with _connection(cluster) as client:
            while not ended.is_set():
                client.execute(f"UPDATE t{rows} SET v = 2 * k WHERE k = {random.randrange(rows)}")

    writer = threading.Thread(target=write)
    if enabled:
        writer.start()
    try:
        yield
    finally:
        ended.set()
        if enabled:
            writer.join()


def _measured(cluster: Cluster, rows: int, reads: int, clients: int, seconds: float) -> Iterator[Result]:
    keys = np.arange(rows, dtype=np.int32)
    arrow = pa.table({"k": keys, "v": 2 * keys})
    with _connection(cluster) as client, duckdb.connect() as database, httpx.Client(trust_env=False) as http:
        database.register("v", arrow)
        peer = _latencies(
            lambda k: _check(database.execute("SELECT * FROM v WHERE k = ?", [k]).fetchall(), k), rows, reads
        )
        ways: dict[str, Read] = {
            "prepared": partial(_prepared, client, rows),
            "simple": partial(_simple, psycopg.ClientCursor(client), rows),
            "REST": partial(_rest, http, cluster.url, rows),
        }
        for way, read in ways.items():
            latencies = _latencies(read, rows, reads)
            for percent, aim in ((50, _P50_MS), (99, _P99_MS)):
                other = Peer("DuckDB over the Arrow table", float(np.percentile(peer, percent)))
                value = float(np.percentile(latencies, percent))
                yield Result(f"{rows:,} rows, {way}, {percent} of 100", value, "ms", "lower", aim, other)
    yield Result(f"{rows:,} rows, {clients} clients", _rate(cluster, rows, clients, seconds), "reads/s", aim=_RATE)


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
    _check(client.execute(f"SELECT * FROM v{rows} WHERE k = %s", (key,)).fetchall(), key)


def _simple(cursor: psycopg.ClientCursor[tuple[object, ...]], rows: int, key: int) -> None:
    _check(cursor.execute(f"SELECT * FROM v{rows} WHERE k = {key}").fetchall(), key)


def _rest(http: httpx.Client, url: str, rows: int, key: int) -> None:
    answer = http.post(f"{url}/v1/statements", json={"sql": f"SELECT * FROM v{rows} WHERE k = {key}"})
    _check([tuple(row) for row in answer.raise_for_status().json()["results"][0]["rows"]], key)


def _check(found: Sequence[tuple[object, ...]], key: int) -> None:
    if list(found) != [(key, 2 * key)]:
        raise ExternalError(f"the row of key {key} was read as {found}")


def _rate(cluster: Cluster, rows: int, clients: int, seconds: float) -> float:
    """The number of prepared reads a second of several clients together."""
    ended = time.monotonic() + seconds
    counts = [0] * clients

    def read(number: int) -> None:
        with _connection(cluster) as client:
            while time.monotonic() < ended:
                _prepared(client, rows, random.randrange(rows))
                counts[number] += 1

    readers = [threading.Thread(target=read, args=(number,)) for number in range(clients)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    return sum(counts) / seconds


def _options(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 100_000], help="the sizes of the views")
    parser.add_argument("--reads", type=int, default=500, help="reads of each kind whose latencies are measured")
    parser.add_argument("--clients", type=int, default=8, help="clients that read at a time")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long these clients read")
    parser.add_argument("--written", action="store_true", help="change rows of the table meanwhile")
    parser.add_argument("--out", type=Path, default=OUT)
    return parser.parse_args(given)


if __name__ == "__main__":
    main()
