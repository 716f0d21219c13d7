"""The parent's side of a process that answers one-time statements."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

import msgspec

from dsms.model.statement_result import EncodedRows
from dsms.tables.not_finite import NotFinite
from dsms.tables.one_time import casts_of
from dsms.tables.one_time_query import OneTimeQueryWithRows
from dsms.tables.refusals import EngineRefusal
from dsms.tables.select_budget import Budget, TookTooLong, limit_exceeded
from dsms.tables.select_wire import InputRelation, Outcome, Request, WorkerLimits, stream_of
from operators.core.distinct_type import stored_schema
from operators.core.errors import ExternalError

_MB = 1024 * 1024
#: The most seconds until the death of the process, or the cancellation of a statement, is noticed.
_POLL_S = 0.05
#: The most seconds that a process may take to start.
_START_S = 120.0
#: The longest first part of an answer, names of columns or a reason, without the places of numbers that are not finite.
_LONGEST_OUTCOME = 4 * _MB
Form = Literal["json", "arrow"]
_ENVIRONMENT = {
    "PYTHONPATH": str(Path(__file__).parents[2]),
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "1",
    "OMP_NUM_THREADS": "1",
    "POLARS_MAX_THREADS": "1",
}


class EndedWhenIdle(ExternalError):
    """The process ended itself before it took the query; another process can answer."""


@dataclass(frozen=True)
class Reply:
    """The columns, the number of rows, and the rows as JSON or as an Arrow stream; with JSON also DuckDB's names of the
    types of the columns, and the places of numbers that are not finite."""

    columns: tuple[str, ...]
    count: int
    rows: bytearray
    types: tuple[str, ...] = ()
    not_finite: Sequence[NotFinite] = ()

    @property
    def encoded(self) -> EncodedRows:
        """The rows that are JSON."""
        return EncodedRows(self.rows, self.count, self.not_finite)


class SelectProcess:
    """A child process that inherits no environment variables. Call `kill` if an answer is not awaited."""

    def __init__(self, limits: WorkerLimits) -> None:
        self._channel, theirs = socket.socketpair()
        command = [sys.executable, "-s", "-P", "-m", "dsms.tables.select_worker"]
        arguments = [str(theirs.fileno()), msgspec.json.encode(limits).decode()]
        with theirs:
            self._process = subprocess.Popen(
                [*command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd="/",
                env=_ENVIRONMENT,
                pass_fds=[theirs.fileno()],
            )
        self._channel.settimeout(_POLL_S)
        self._started = False
        #: Whether the process can be asked again: the last query was answered within the memory limit.
        self.reusable = True

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Ends the process at once."""
        self._process.kill()
        self._process.wait()
        self._channel.close()

    def ask(self, asked: OneTimeQueryWithRows, form: Form, budget: Budget) -> Reply:
        """The answer to a query whose expressions are calls of functions already (see `with_engine_calls`)."""
        self.reusable = False
        self._await_start(budget)
        most = budget.limits.select_result_mb * _MB
        streams = {name: stream_of(rows.cast(stored_schema(rows.schema))) for name, rows in asked.relations.items()}
        given = [
            InputRelation(name, casts_of(rows.schema), streams[name].size) for name, rows in asked.relations.items()
        ]
        rows = budget.limits.select_rows if form == "json" else sys.maxsize
        request = Request(asked.sql, given, form, rows, most, list(asked.functions))
        for content in (msgspec.msgpack.encode(request), *streams.values()):
            self._send(content, budget)
        outcome = msgspec.msgpack.decode(self._receive(_LONGEST_OUTCOME + most, budget), type=Outcome)
        # an Arrow stream is a little larger than its rows
        body = self._receive(2 * most + _MB, budget)
        self.reusable = outcome.failed != "memory"
        if outcome.failed:
            _refuse(outcome, budget)
        return Reply(tuple(outcome.columns), outcome.rows, body, tuple(outcome.types), outcome.not_finite)

    def _await_start(self, budget: Budget) -> None:
        """Waits until the process can take a query. This does not count as time of the statement: on a busy machine,
        the imports of the process alone may take longer than a statement may."""
        if self._started:
            return
        with budget.uncounted():
            starting = Budget(budget.limits, time.monotonic() + _START_S, budget.cancelled)
            try:
                self._receive(0, starting)
            except TookTooLong as error:
                raise ExternalError(f"the process of a SELECT did not start within {_START_S:g} s") from error
        self._started = True

    def _send(self, content: Any, budget: Budget) -> None:
        view = memoryview(content)
        for part in (memoryview(len(view).to_bytes(8, "big")), view):
            while part:
                budget.check()
                try:
                    part = part[self._channel.send(part) :]
                except TimeoutError:
                    continue
                except OSError:
                    self._report_end(budget)

    def _receive(self, most: int, budget: Budget) -> bytearray:
        size = int.from_bytes(self._read(bytearray(8), budget), "big")
        if size > most:
            raise ExternalError(f"the process of a SELECT sent {size} bytes, more than its limit")
        return self._read(bytearray(size), budget)

    def _read(self, into: bytearray, budget: Budget) -> bytearray:
        view, at = memoryview(into), 0
        while at < len(view):
            budget.check()
            try:
                count = self._channel.recv_into(view[at:])
            except TimeoutError:
                continue
            except OSError:
                count = 0
            if not count:
                self._report_end(budget)
            at += count
        return into

    def _report_end(self, budget: Budget) -> NoReturn:
        """Raises EndedWhenIdle if the process ended itself, LimitExceeded if it died."""
        try:
            status = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            status = None
        if status == 0:
            raise EndedWhenIdle("the process of a SELECT has ended")
        may_be = f"it may have needed more than {budget.limits.select_memory_mb} MB of memory"
        raise limit_exceeded(
            "select_memory_mb", f"the process that answered the statement died ({_cause_of_end(status)}); {may_be}"
        )


def _cause_of_end(status: int | None) -> str:
    if status is None:
        return "its connection broke"
    return f"signal {-status}" if status < 0 else f"status {status}"


def _refuse(outcome: Outcome, budget: Budget) -> NoReturn:
    limits = budget.limits
    if outcome.failed == "sql":
        raise EngineRefusal(outcome.reason)
    if outcome.failed == "memory":
        raise limit_exceeded(
            "select_memory_mb", f"the statement needs more than {limits.select_memory_mb} MB of memory"
        )
    if outcome.failed == "rows":
        raise limit_exceeded("select_rows", f"the answer has more than {limits.select_rows} rows")
    raise limit_exceeded("select_result_mb", f"the answer has more than {limits.select_result_mb} MB")
