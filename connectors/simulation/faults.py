"""The faults of a simulation: a plan drawn in advance, so that a failing simulation is shrunk by leaving faults out.

Neighbours ask the plan at each call whether a fault applies to it. Faults that do not wait for a call, such as the kill
of a process, are carried out by the simulation itself when their time has come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal[
    # requests to Kafka, and calls of the state store
    "request lost",  # the connection is cut before the neighbour gets the request
    "answer lost",  # the neighbour executes the request, then the connection is cut
    "request late",  # the connection is cut, and the request arrives `for_s` later, perhaps after its retry
    "slow",  # the answer comes `for_s` later
    # Kafka
    "leader moves",  # the partitions that a broker leads move to other brokers
    "broker restarts",  # all connections to a broker are cut; it is away for `for_s`
    # the state store
    "store restarts",  # it is away for `for_s` and keeps its content
    "store loses all",  # it is away for `for_s` and comes back empty
    "store goes back",  # it comes back with the content of `for_s` ago
    "store full",  # writes fail for `for_s`
    # files
    "bit flips",  # in a file of a host
    "files lost",  # a host loses the files that were not flushed to disk, and the process is killed
    "disk full",  # writes of files fail for `for_s`
    "directory lost",  # a directory of a host is removed, with all that is in it
    # processes
    "kill",  # a process is killed, and started again after `for_s`
    "pause",  # a process is stopped for `for_s`
    "clock jumps",  # the wall clock of a process jumps by `for_s` (which may be negative)
]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that happens from `at_s` on: once, at the first call that it applies to.

    `target` is the name of a process, a broker or a host ("": any). `operation` restricts it to calls of one name, such
    as "EndTxn" or "commit" ("": all); with a topic, as in "Produce dsms.q", to requests that name this topic. A kill or
    a pause with an operation happens while such a call is on its way; without one, at its time. A late request to Kafka
    with `meets` arrives earlier if its process sends a request of that name: together with it.
    """

    at_s: float
    kind: Kind
    target: str = ""
    operation: str = ""
    for_s: float = 0.0
    meets: str = ""

    def __str__(self) -> str:
        """The fault as a line of a story."""
        where = f" of {self.target}" if self.target else ""
        what = f" at {self.operation}" if self.operation else ""
        meets = f", or with the next {self.meets}" if self.meets else ""
        return f"{self.at_s:.3f} s: {self.kind}{where}{what}" + (f", {self.for_s:g} s" if self.for_s else "") + meets


#: The faults of a process that may happen at one of its calls.
_AT_CALLS: tuple[Kind, ...] = ("kill", "pause")


class FaultPlan:
    """The faults that have not happened yet, and how many of each kind have.

    >>> plan = FaultPlan([Fault(5.0, "answer lost", "executor-1", "EndTxn")])
    >>> plan.take(["answer lost"], 4.0, "executor-1", "EndTxn")
    >>> str(plan.take(["answer lost", "slow"], 6.0, "executor-1", "EndTxn"))
    '5.000 s: answer lost of executor-1 at EndTxn'
    >>> plan.happened["answer lost"]
    1
    """

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self._waiting = sorted(faults, key=lambda fault: (fault.at_s, str(fault)))
        self.happened: Counter[Kind] = Counter()
        #: Carries out the kill or the pause of a process that has just sent a call.
        self.strike: Callable[[Fault], None] = lambda _: None

    def take(self, kinds: Collection[Kind], now: float, target: str = "", call: str = "") -> Fault | None:
        """The next fault of some kinds that applies to a call, given by its name, with or without details; it then
        counts as having happened."""
        for at, fault in enumerate(self._waiting):
            if fault.at_s > now:
                break
            if fault.kind in kinds and fault.target in ("", target) and _applies(fault.operation, call):
                self.happened[fault.kind] += 1
                return self._waiting.pop(at)
        return None

    def call_sent(self, now: float, process: str, call: str) -> None:
        """Kills or pauses a process that sends a call, if that is planned."""
        if fault := self.take(_AT_CALLS, now, process, call):
            self.strike(fault)

    def due(self, kinds: Collection[Kind]) -> list[Fault]:
        """Takes all faults of some kinds that do not wait for a call: those that the simulation carries out itself."""
        taken = [fault for fault in self._waiting if fault.kind in kinds and not _at_call(fault)]
        self._waiting = [fault for fault in self._waiting if fault not in taken]
        return taken


def _applies(operation: str, call: str) -> bool:
    """Whether an operation of a fault describes a call: the call has its name and, if it has a topic, names this topic.

    >>> call = "Produce dsms.q/0 2 records of 1/0 #0, dsms.other/1 1 records of 1/0 #0"
    >>> [_applies(each, call) for each in ("", "Produce", "Produce dsms.other", "Produce dsms.o", "EndTxn")]
    [True, True, True, False, False]
    """
    if not operation:
        return True
    name, _, topic = operation.partition(" ")
    called, _, details = call.partition(" ")
    return called == name and (not topic or any(word.startswith(f"{topic}/") for word in details.split()))


def _at_call(fault: Fault) -> bool:
    return fault.kind in _AT_CALLS and fault.operation != ""
