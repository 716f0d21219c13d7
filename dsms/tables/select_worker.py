"""A process that answers one-time statements, one at a time, within limits of memory and of the size of answers.

Its arguments are the file descriptor of a socket and the limits (`WorkerLimits`, as JSON). It imports little more than
DuckDB, Arrow and the engine's expressions, so that it starts fast. It knows no secrets and cannot write files. The
parent, at the other end of the socket, kills it when an answer takes too long. It ends itself when that end is closed,
and after ten minutes without a query. It sends an empty frame when it is ready, and lowers its priority only then, so
that it starts on a busy machine, too.
"""

from __future__ import annotations

import os
import resource
import select
import socket
import sys
import threading
from contextlib import suppress
from typing import Any, Literal

import duckdb
import msgspec
import pyarrow as pa

from dsms.tables.database import connect, register
from dsms.tables.engine_functions import reason_of, registered, warm_up
from dsms.tables.not_finite import NotFinite, float_columns, not_finite
from dsms.tables.select_wire import Outcome, Request, WorkerLimits, stream_of
from dsms.tables.times_in_range import check_times_in_columns, check_times_in_rows, time_columns
from operators.core.errors import UserError

_IDLE_S = 600.0
_MB = 1024 * 1024
_CHUNK_ROWS = 256
_LARGEST_PART = 16 * _MB
#: About the size of the place of a number that is not finite.
_PLACE_BYTES = 20


class Exceeded(Exception):
    """The result has more rows or bytes than the request allows."""


def _serve(channel: socket.socket, limits: WorkerLimits) -> None:
    warm_up()
    database, base = connect(limits.memory_mb), _data_bytes()
    _lower_priority(limits.niceness)
    _send(channel, b"")  # it is ready for queries
    while True:
        channel.settimeout(_IDLE_S)
        request = msgspec.msgpack.decode(_received(channel), type=Request)
        channel.settimeout(None)
        read = sum(given.bytes for given in request.relations)
        _limit_memory(base + limits.memory_mb * _MB + 2 * (read + request.bytes))
        outcome, rows = _outcome(database, channel, request)
        _send(channel, msgspec.msgpack.encode(outcome))
        _send(channel, rows)
        if outcome.failed == "memory":
            return


def _outcome(database: duckdb.DuckDBPyConnection, channel: socket.socket, request: Request) -> tuple[Outcome, Any]:
    try:
        streams = [_received(channel) for _ in request.relations]
        with registered(database, request.functions), database.cursor() as cursor:
            for given, stream in zip(request.relations, streams, strict=True):
                register(cursor, given.name, pa.ipc.open_stream(pa.py_buffer(stream)).read_all(), given.casts)
            return _answered(cursor, request)
    except Exceeded as error:
        return Outcome(failed="rows" if str(error) == "rows" else "bytes"), b""
    except (MemoryError, duckdb.OutOfMemoryException) as error:
        return Outcome(failed="memory", reason=reason_of(error)), b""
    except (duckdb.FatalException, duckdb.InternalException):
        raise  # the database cannot be used any more
    except UserError as error:
        return Outcome(failed="sql", reason=str(error)), b""
    except duckdb.Error as error:
        out_of_memory = "bad_alloc" in str(error) or "MemoryError" in str(error)
        failed: Literal["memory", "sql"] = "memory" if out_of_memory else "sql"
        return Outcome(failed=failed, reason=reason_of(error)), b""


def _answered(cursor: duckdb.DuckDBPyConnection, request: Request) -> tuple[Outcome, Any]:
    if request.form == "arrow":
        table = cursor.sql(request.sql).to_arrow_table()
        check_times_in_columns(table)
        _check(request, table.num_rows, table.nbytes)
        return Outcome(table.column_names, table.num_rows), stream_of(table)
    cursor.execute(request.sql)
    columns = [column[0] for column in cursor.description or []]
    types = [str(column[1]) for column in cursor.description or []]
    rows, body, times = 0, bytearray(b"["), time_columns(types)
    floats, infinite = float_columns(types), list[NotFinite]()
    while chunk := cursor.fetchmany(_CHUNK_ROWS):
        check_times_in_rows(columns, times, chunk)
        infinite += not_finite(chunk, floats, rows)
        for row in chunk:
            body += b"," if rows else b""
            body += msgspec.json.encode(row, enc_hook=str)
            rows += 1
            _check(request, rows, len(body) + _PLACE_BYTES * len(infinite))
    return Outcome(columns, rows, types=types, not_finite=infinite), body + b"]"


def _check(request: Request, rows: int, size: int) -> None:
    if rows > request.rows:
        raise Exceeded("rows")
    if size > request.bytes:
        raise Exceeded("bytes")


def _received(channel: socket.socket) -> bytearray:
    content = bytearray(int.from_bytes(_read(channel, bytearray(8)), "big"))
    return _read(channel, content)


def _read(channel: socket.socket, into: bytearray) -> bytearray:
    view, at = memoryview(into), 0
    while at < len(view):
        try:
            count = channel.recv_into(view[at : at + _LARGEST_PART])
        except TimeoutError:
            _end()
        if not count:
            _end()
        at += count
    return into


def _send(channel: socket.socket, content: Any) -> None:
    size = content.size if isinstance(content, pa.Buffer) else len(content)
    channel.sendall(size.to_bytes(8, "big"))
    channel.sendall(content)


def _end() -> None:
    """Ends the process at once, without waiting for its threads."""
    os._exit(0)


def _end_with_parent(channel: socket.socket) -> None:
    """Waits in a thread until the other end of the socket is closed, then ends the process, even during a query."""
    poll = select.poll()
    poll.register(channel, getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR)
    poll.poll()
    _end()


def _data_bytes() -> int:
    """The private writable memory of this process; 0 if the system does not report it."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmData"))
    except FileNotFoundError:
        return 0


def _limit_memory(most: int) -> None:
    """Limits the memory that DuckDB's own limit does not cover: values of functions, and what Python and Arrow hold."""
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_DATA, (most, resource.RLIM_INFINITY))


def _lower_priority(niceness: int) -> None:
    """Lowers the priority of this process. Where Linux shares processors among sessions (autogroups), niceness acts
    only within a session, so the process also gets its own session, with the same niceness."""
    os.nice(niceness)
    os.setsid()
    # the system may have no autogroups, or not let them be changed
    with suppress(OSError), open("/proc/self/autogroup", "w", encoding="ascii") as group:
        group.write(str(niceness))


def _prefer_for_oom_kill() -> None:
    """Makes the kernel kill this process, not the coordinator, if the memory of the machine runs out."""
    if sys.platform == "linux":
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as score:
            score.write("1000")


def main() -> None:
    """Answers queries until the other end of the socket is closed."""
    channel, limits = socket.socket(fileno=int(sys.argv[1])), msgspec.json.decode(sys.argv[2], type=WorkerLimits)
    _prefer_for_oom_kill()
    for kind, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_NOFILE, 64)):
        resource.setrlimit(kind, (most, most))
    threading.Thread(target=_end_with_parent, args=(channel,), daemon=True).start()
    _serve(channel, limits)


if __name__ == "__main__":
    main()
