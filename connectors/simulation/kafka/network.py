"""The network between clients and brokers: connections on which requests arrive in order, late, or not at all."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from kafka.errors import KafkaConnectionError
from kafka.future import Future

from connectors.simulation.faults import Fault, FaultPlan, Kind
from connectors.simulation.kafka.describe import described, kind_of, outcome, transactional_id_of
from connectors.simulation.scheduler import Process, Scheduler, Signal

_LOSING: tuple[Kind, ...] = ("request lost", "answer lost", "request late", "slow")
_DISTURBING: tuple[Kind, ...] = ("leader moves", "broker restarts")
Respond = Callable[[Any], None]


class Node(Protocol):
    """A broker, as the network sees it."""

    number: int
    name: str
    up: bool

    def handle(self, request: Any, client: str, respond: Respond) -> None:
        """Begins to answer a request; calls `respond` with the answer, at once or later."""
        ...


@dataclass(frozen=True, slots=True)
class Delays:
    """How long messages take, in seconds. Each is drawn between the bounds; a small share takes much longer."""

    usual_s: tuple[float, float] = (0.0001, 0.002)
    long_s: tuple[float, float] = (0.01, 0.3)
    long_share: float = 0.01


@dataclass(eq=False, slots=True)
class _Call:
    """A request on its way, and the future of its answer."""

    request: Any
    future: Future
    fault: Fault | None = None


@dataclass(eq=False, slots=True)
class LateRequest:
    """The delivery of a late request, which takes place once. It is due early if its process sends a request of the
    kind that it meets, for the same transactional id."""

    deliver: Callable[[], None]
    process: str = ""
    meets: str = ""
    transactional_id: str | None = None


class Network:
    """The connections between the processes of a simulation and the brokers."""

    def __init__(
        self, scheduler: Scheduler, plan: FaultPlan, delays: Delays, disturb: Callable[[Fault, int], None]
    ) -> None:
        self.scheduler, self.plan, self._delays, self._disturb = scheduler, plan, delays, disturb
        #: The requests that are late. Each is delivered once, when its time has come or when that is called.
        self.late: list[LateRequest] = []
        self._connections: dict[Process, dict[Connection, None]] = {}

    def connect(self, process: Process, node: Node, changed: Signal) -> Connection:
        """Opens a connection of a process to a broker. `changed` is signalled for each answer, and when it is cut."""
        if process not in self._connections:
            self._connections[process] = {}
            process.on_kill.append(partial(self.cut_process, process))
        connection = Connection(self, process, node, changed)
        self._connections[process][connection] = None
        return connection

    def cut_process(self, process: Process) -> None:
        """Cuts all connections of a process. Requests that are on the wire still arrive."""
        for connection in list(self._connections.get(process, ())):
            connection.cut()

    def cut_broker(self, node: Node) -> None:
        """Cuts all connections to a broker."""
        for connections in list(self._connections.values()):
            for connection in [each for each in connections if each.node is node]:
                connection.cut()

    def forget(self, connection: Connection) -> None:
        """Forgets a connection that was closed."""
        self._connections.get(connection.process, {}).pop(connection, None)

    def delay_s(self) -> float:
        """How long the next message takes."""
        chance, delays = self.scheduler.random, self._delays
        return chance.uniform(*(delays.long_s if chance.random() < delays.long_share else delays.usual_s))

    def fault(self, kinds: tuple[Kind, ...], process: Process, node: Node, operation: str) -> Fault | None:
        """A fault that applies to a request."""
        now = self.scheduler.now
        return self.plan.take(kinds, now, process.name, operation) or self.plan.take(kinds, now, node.name, operation)

    def disturb(self, process: Process, node: Node, operation: str) -> None:
        """Carries out a fault of the broker that gets a request, if one is planned."""
        fault = self.fault(_DISTURBING, process, node, operation)
        if fault is not None:
            self.scheduler.record(f"fault: {fault}")
            self._disturb(fault, node.number)

    def deliver_late(self, seconds: float, arrive: Callable[[], None], process: str, call: _Call) -> None:
        """Delivers a request some seconds later, unless that has been done before."""

        def deliver() -> None:
            if late in self.late:
                self.late.remove(late)
                arrive()

        meets = "" if call.fault is None else call.fault.meets
        late = LateRequest(deliver, process, meets, transactional_id_of(call.request))
        self.late.append(late)
        self.after(seconds, deliver)

    def sends(self, process: str, request: Any) -> None:
        """A process sends a request: late requests that meet it arrive at about the same time."""
        sent = kind_of(request), process
        for late in self.late:
            if sent == (late.meets, late.process) and transactional_id_of(request) == late.transactional_id:
                self.after(self.delay_s(), late.deliver)

    def after(self, seconds: float, call: Callable[[], object]) -> None:
        """Calls a function some seconds later."""
        self.scheduler.call_at(self.scheduler.now + seconds, call)


class Connection:
    """A client's connection to a broker, which reads the next request once it has answered the last one."""

    def __init__(self, network: Network, process: Process, node: Node, changed: Signal) -> None:
        self.process, self.node, self.open = process, node, True
        #: Whether it has carried a request whose answer may have been lost.
        self.used = False
        self._network, self._changed = network, changed
        self._unanswered: dict[_Call, None] = {}
        self._arrived: deque[_Call] = deque()
        self._busy = False
        # The connection is set up before the first request arrives.
        self._last_arrival = network.scheduler.now + network.delay_s()
        self._last_answer = 0.0

    def send(self, request: Any) -> Future:
        """Sends a request."""
        network, text = self._network, described(request)
        call = _Call(request, Future())
        if not self.open:
            return call.future.failure(KafkaConnectionError("the connection is closed"))
        self.used = True
        self._unanswered[call] = None
        network.scheduler.record(f"{self.process.name} to {self.node.name}: {text}")
        network.sends(self.process.name, request)
        network.plan.call_sent(network.scheduler.now, self.process.name, text)
        call.fault = network.fault(_LOSING, self.process, self.node, text)
        if call.fault is not None:
            network.scheduler.record(f"fault: {call.fault}")
        kind = "" if call.fault is None else call.fault.kind
        if kind in ("request lost", "request late"):
            network.after(network.delay_s(), self.cut)
        if kind == "request late":
            assert call.fault is not None
            arrive = partial(self._arrive_late, call)
            network.deliver_late(call.fault.for_s + network.delay_s(), arrive, self.process.name, call)
        elif kind != "request lost":
            self._last_arrival = max(self._last_arrival, network.scheduler.now) + network.delay_s()
            network.scheduler.call_at(self._last_arrival, partial(self._arrive, call))
        return call.future

    def waits_for(self, future: Future) -> bool:
        """Whether the broker has not answered the request of this future."""
        return any(call.future is future for call in self._unanswered)

    def cut(self) -> None:
        """Cuts the connection: all requests without an answer fail, whether or not the broker gets them."""
        if not self.open:
            return
        self.open = False
        self._network.forget(self)
        unanswered, self._unanswered = list(self._unanswered), {}
        for call in unanswered:
            call.future.failure(KafkaConnectionError("the connection was cut"))
        self._network.scheduler.send(self._changed)

    def _arrive(self, call: _Call) -> None:
        if not self.node.up:
            self.cut()
            return
        self._network.disturb(self.process, self.node, kind_of(call.request))
        if not self.node.up:
            return
        self._arrived.append(call)
        if not self._busy:
            self._serve()

    def _arrive_late(self, call: _Call) -> None:
        """A request arrives that its sender has given up; nobody waits for the answer."""
        if self.node.up:
            scheduler = self._network.scheduler
            scheduler.record(f"{self.node.name}: late from {self.process.name}: {described(call.request)}")
            self.node.handle(call.request, self.process.name, lambda answer: self._record(call, answer))

    def _serve(self) -> None:
        while self._arrived and not self._busy:
            call = self._arrived.popleft()
            self._busy = True
            self.node.handle(call.request, self.process.name, partial(self._answer, call))

    def _answer(self, call: _Call, answer: Any) -> None:
        self._busy = False
        self._record(call, answer)
        network, kind = self._network, "" if call.fault is None else call.fault.kind
        if kind == "answer lost":
            network.after(network.delay_s(), self.cut)
        else:
            throttled = getattr(answer, "throttle_time_ms", 0) / 1000
            slow = call.fault.for_s if call.fault is not None and kind == "slow" else 0.0
            self._last_answer = max(self._last_answer, network.scheduler.now) + network.delay_s() + throttled + slow
            network.scheduler.call_at(self._last_answer, partial(self._receive, call, answer))
        network.scheduler.call_at(network.scheduler.now, self._serve)

    def _receive(self, call: _Call, answer: Any) -> None:
        if call in self._unanswered:
            del self._unanswered[call]
            call.future.success(answer)
            self._network.scheduler.send(self._changed)

    def _record(self, call: _Call, answer: Any) -> None:
        what = f"{self.node.name} answers {self.process.name}: {kind_of(call.request)} {outcome(answer)}"
        self._network.scheduler.record(what.rstrip())
