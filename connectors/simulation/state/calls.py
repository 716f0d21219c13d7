"""The way of a call to the simulated server and back: latency, faults, and a line in the trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from connectors.redis.errors import failed, full
from connectors.simulation.faults import FaultPlan, Kind
from connectors.simulation.scheduler import Scheduler, Signal

#: The least and the most seconds that a request or an answer is on its way.
LATENCY_S = (0.000_1, 0.002)
#: A client waits so long for an answer.
TIMEOUT_S = 20.0
#: The operations that Redis refuses if its memory is full. All others remove something first, or write nothing.
NEED_MEMORY = frozenset({"put", "add", "copy", "report", "begin", "replace"})
_FAULTS: tuple[Kind, ...] = ("request lost", "answer lost", "request late", "slow")
#: How many names a line of the trace lists.
_MAX_NAMES = 3


@dataclass
class Server:
    """Whether the server answers. `starts` counts its starts: the connections of earlier ones are cut."""

    away: bool = False
    full: bool = False
    starts: int = 0


@dataclass
class _Call:
    """A call that a process waits for."""

    operation: str
    part: str
    run: Callable[[], Any]
    text: str
    #: The start of the server to which the process is connected.
    start: int
    error: BaseException | None = None
    answer: Any = None
    arrived: Signal = field(default_factory=Signal)

    @property
    def doing(self) -> str:
        return f"executing {self.operation} of the {self.part}"


class Calls:
    """Sends the calls of processes to a server. The server executes each at one instant, even if the process is killed
    after it has sent the call."""

    def __init__(self, scheduler: Scheduler, plan: FaultPlan, server: Server) -> None:
        self._scheduler, self._plan, self._server = scheduler, plan, server

    def call(self, part: str, operation: str, run: Callable[[], Any], text: str) -> Any:
        """The result of a function that the server executes. Raises ExternalError as `connectors.redis` does."""
        process = self._scheduler.process
        if process is None:  # the simulation looks at the content itself
            return run()
        self._plan.call_sent(self._scheduler.now, process.name, operation)
        fault = self._plan.take(_FAULTS, self._scheduler.now, process.name, operation)
        kind = fault.kind if fault is not None else None
        for_s = fault.for_s if fault is not None else 0.0
        call = _Call(operation, part, run, f"{process.name}: {operation} {text}", self._server.starts)
        if fault is not None:
            self._scheduler.record(f"store: {fault}")
        if kind == "request lost":
            self._scheduler.sleep(self._latency())
            raise failed(call.doing, "connection reset")
        if kind == "request late":
            copy = _Call(operation, part, run, f"{call.text} (late)", call.start)
            self._scheduler.call_at(self._scheduler.now + self._latency() + for_s, partial(self._execute, copy))
        return self._answer(call, for_s if kind == "slow" else 0.0, lost=kind == "answer lost")

    def _answer(self, call: _Call, slow_s: float, *, lost: bool) -> Any:
        arrives = self._scheduler.now + self._latency()
        answered = arrives + self._latency() + slow_s
        self._scheduler.call_at(arrives, partial(self._execute, call))
        self._scheduler.call_at(answered, partial(self._scheduler.send, call.arrived))
        if not self._scheduler.wait(call.arrived, TIMEOUT_S):
            raise failed(call.doing, "timeout reading from socket")
        if call.error is not None:
            raise call.error
        if lost or self._server.starts != call.start or self._server.away:
            raise failed(call.doing, "connection closed by server")
        return call.answer

    def _execute(self, call: _Call) -> None:
        """Executes a call in the server, which must not wait."""
        try:
            self._refuse(call)
            call.answer = call.run()
        except Exception as error:  # noqa: BLE001 raised in the task that waits
            call.error = error
        outcome = "" if call.error is None else f" -> {type(call.error).__name__}: {call.error}"
        self._scheduler.record(f"store: {call.text}{outcome}")

    def _refuse(self, call: _Call) -> None:
        if self._server.away:
            raise failed(call.doing, "connection refused")
        if self._server.full and call.operation in NEED_MEMORY:
            raise full(call.doing)

    def _latency(self) -> float:
        return self._scheduler.random.uniform(*LATENCY_S)


class Remote:
    """A part of the server as processes see it: each method is a call. Methods in `LOCAL` are part of the client."""

    LOCAL = frozenset({"place"})

    def __init__(self, calls: Calls, name: str, part: object) -> None:
        self._calls, self._name, self._part = calls, name, part

    def __getattr__(self, operation: str) -> Any:
        member = getattr(self._part, operation)
        if operation in self.LOCAL or not callable(member):
            return member
        return partial(self._call, operation, member)

    def _call(self, operation: str, member: Callable[..., Any], *args: Any) -> Any:
        sent = tuple(_sent(each) for each in args)
        text = " ".join([self._name, *filter(None, map(_shown, sent))])
        return self._calls.call(self._name, operation, partial(member, *sent), text)


def _sent(argument: Any) -> Any:
    """An argument as it is when the call is sent."""
    if isinstance(argument, Mapping):
        return dict(argument)
    if isinstance(argument, (str, bytes, tuple)) or not isinstance(argument, Iterable):
        return argument
    return sorted(argument) if isinstance(argument, (set, frozenset)) else list(argument)


def _shown(argument: Any) -> str:
    """An argument in the trace: names, but no content, and no directories of this machine.

    >>> _shown("catalog"), _shown(b"body"), _shown(["1/d", "1/a", "1/b", "1/c"]), _shown({"/tmp/1_a.arrow": "torn"})
    ('catalog', '', '1/d, 1/a, 1/b and 1 more', '1_a.arrow')
    """
    if argument is None or isinstance(argument, bytes):
        return ""
    if isinstance(argument, (Mapping, list)):
        names = [each.rpartition("/")[2] if each.startswith("/") else each for each in map(str, argument)]
        more = len(names) - _MAX_NAMES
        return ", ".join(names[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")
    return str(argument)
