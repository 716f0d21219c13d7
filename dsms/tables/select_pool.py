"""The processes that answer one-time statements: a few at once, started when they are needed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import structlog

from dsms.model.limits import SETTING, Limits
from dsms.tables.engine_split import with_engine_calls
from dsms.tables.one_time_query import OneTimeQueryWithRows
from dsms.tables.refusals import EngineRefusal, refused
from dsms.tables.select_budget import Budget, TookTooLong, TooManySelects
from dsms.tables.select_process import EndedWhenIdle, Form, Reply, SelectProcess
from dsms.tables.select_wire import WorkerLimits
from operators.core.errors import SqlError

log = structlog.get_logger()
_MAX_ATTEMPTS = 3


class SelectPool:
    """Runs at most `most` statements at once, each in its own process; a limited number of others wait. A process that
    has answered is reused for later statements until it ends itself when idle; one that has failed is killed."""

    def __init__(self, limits: Limits, most: int, niceness: int = 0) -> None:
        self._limits, self._most = limits, most
        self._worker_limits = WorkerLimits(limits.select_memory_mb, niceness)
        self._slots, self._lock = threading.Semaphore(most), threading.Lock()
        self._admitted_count = 0
        self._idle: list[SelectProcess] = []

    @contextmanager
    def admitted(self, cancelled: threading.Event | None = None) -> Iterator[Budget]:
        """Admits a statement for the block, and gives its budget. Raises TooManySelects if too many run and wait."""
        with self._lock:
            if self._admitted_count >= self._most + self._limits.selects_waiting:
                raise _too_many_selects(self._most, self._limits.selects_waiting)
            self._admitted_count += 1
        try:
            self._wait(Budget.of(self._limits, cancelled))
            try:
                yield Budget.of(self._limits, cancelled)
            finally:
                self._slots.release()
        finally:
            with self._lock:
                self._admitted_count -= 1

    def _wait(self, budget: Budget) -> None:
        """Waits until a statement may run. Raises TooManySelects after the time limit of a statement."""
        while not self._slots.acquire(timeout=0.1):
            try:
                budget.check()
            except TookTooLong as error:
                raise _too_many_selects(self._most, self._limits.selects_waiting) from error

    def rows(self, asked: OneTimeQueryWithRows, budget: Budget) -> pa.Table:
        """The rows of a query, for a statement that was admitted."""
        return pa.ipc.open_stream(pa.py_buffer(self.reply(asked, "arrow", budget).rows)).read_all()

    def reply(self, asked: OneTimeQueryWithRows, form: Form, budget: Budget) -> Reply:
        """The answer to a query, for a statement that was admitted."""
        try:
            return self._reply(asked, form, budget)
        except EngineRefusal as refusal:
            raise refused(refusal, asked) from refusal

    def _reply(self, asked: OneTimeQueryWithRows, form: Form, budget: Budget) -> Reply:
        asked = with_engine_calls(asked, lambda probing: self._refusal(probing, budget))
        for _ in range(_MAX_ATTEMPTS - 1):
            try:
                return self._ask(asked, form, budget)
            except EndedWhenIdle:
                continue  # it has ended itself because it was idle
        return self._ask(asked, form, budget)

    def _refusal(self, asked: OneTimeQueryWithRows, budget: Budget) -> str:
        """DuckDB's reason for refusing a query."""
        try:
            self.reply(asked, "arrow", budget)
        except SqlError as error:
            return error.message
        return ""

    def close(self) -> None:
        """Ends the idle processes."""
        with self._lock:
            idle, self._idle = self._idle, []
        for process in idle:
            process.kill()

    def _ask(self, asked: OneTimeQueryWithRows, form: Form, budget: Budget) -> Reply:
        process = self._idle_or_new()
        try:
            return process.ask(asked, form, budget)
        finally:
            if process.reusable:
                with self._lock:
                    self._idle.append(process)
            else:
                log.info("killing the process of a failed one-time statement", pid=process.pid)
                process.kill()

    def _idle_or_new(self) -> SelectProcess:
        while True:
            with self._lock:
                if not self._idle:
                    break
                process = self._idle.pop()
            if process.alive:
                return process
            process.kill()
        return SelectProcess(self._worker_limits)


def _too_many_selects(most: int, waiting: int) -> TooManySelects:
    hint = f'the limits "selects" and "selects_waiting" are set by {SETTING}'
    return TooManySelects(
        f"too many one-time statements: {most} are running and {waiting} wait; try again later", hint=hint
    )
