"""The state of the transactions of one transactional id, and how requests change it.

Producers use one of two protocols. In the older one, all transactions of a producer have one epoch. In that of KIP-890
(`new_epochs`), each end of a transaction begins a new epoch, so that a late request is recognised by its old epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from connectors.simulation.kafka import codes

Place = tuple[str, int]
Producer = tuple[int, int]
NO_PRODUCER: Producer = (-1, -1)
_NO_EPOCH = -1
#: The greatest epoch that a producer may have; the next producer has another id.
_LAST_EPOCH = (1 << 15) - 2


class State(Enum):
    """The states of a transaction."""

    EMPTY = "empty"
    ONGOING = "ongoing"
    COMMITTING = "committing"
    ABORTING = "aborting"
    COMMITTED = "committed"
    ABORTED = "aborted"


_ENDING, _ENDED = {State.COMMITTING, State.ABORTING}, {State.COMMITTED, State.ABORTED}


@dataclass(frozen=True, slots=True)
class Answer:
    """An error code; the present producer id and epoch; whether markers must now be written."""

    code: int
    producer: Producer = NO_PRODUCER
    ends: bool = False


@dataclass(eq=False)
class Transaction:
    """The present or last transaction of a transactional id."""

    id: str
    producer: int
    timeout_ms: int
    epoch: int = _NO_EPOCH
    #: The epoch before the last change of the epoch that this producer requested itself.
    last_epoch: int = _NO_EPOCH
    state: State = State.EMPTY
    partitions: set[Place] = field(default_factory=set)
    started_s: float = 0.0
    #: Whether the transaction that is ending began a new epoch.
    new_epochs: bool = False
    #: How many transactions have ended, with the one that is ending.
    number: int = 0

    @property
    def committing(self) -> bool:
        """Whether the transaction is being committed."""
        return self.state is State.COMMITTING

    def initialize(self, expected: Producer, timeout_ms: int, *, new_epochs: bool) -> Answer:
        """InitProducerId: begins a new epoch; for the present owner if `expected` is its id and epoch, otherwise for a
        new owner. An open transaction is aborted first, for which the client has to ask again.
        """
        if expected != NO_PRODUCER and self.epoch != _NO_EPOCH and expected[0] != self.producer:
            return Answer(codes.FENCED)
        if self.state in _ENDING:
            return Answer(codes.CONCURRENT)
        if self.state is State.ONGOING:
            self.fence(new_epochs=new_epochs)
            return Answer(codes.CONCURRENT, ends=True)
        if expected == NO_PRODUCER:
            self.epoch, self.last_epoch = self.epoch + 1, _NO_EPOCH
        elif self.epoch in (_NO_EPOCH, expected[1]):
            self.epoch, self.last_epoch = self.epoch + 1, self.epoch
        elif expected[1] != self.last_epoch:
            return Answer(codes.FENCED)
        self.state, self.timeout_ms, self.partitions = State.EMPTY, timeout_ms, set()
        return Answer(codes.NONE, (self.producer, self.epoch))

    @property
    def exhausted(self) -> bool:
        """Whether the next producer needs another id, because epochs are small numbers."""
        return self.epoch >= _LAST_EPOCH and self.state in {State.EMPTY, *_ENDED}

    def rotate(self, producer: int) -> None:
        """Gives the next producer another id."""
        self.producer, self.epoch, self.last_epoch = producer, _NO_EPOCH, _NO_EPOCH

    def fence(self, *, new_epochs: bool) -> None:
        """Aborts an open transaction under a new epoch, so that its producer is fenced."""
        if not new_epochs:  # otherwise its end begins a new epoch
            self.epoch, self.last_epoch = self.epoch + 1, _NO_EPOCH
        self._end(State.ABORTING, new_epochs=new_epochs)

    def add(self, producer: Producer, places: set[Place], now_s: float) -> int:
        """AddPartitionsToTxn: adds partitions, and begins a transaction if none is open."""
        if (code := self._refusal(producer)) != codes.NONE:
            return code
        if self.state is not State.ONGOING:
            self.state, self.started_s, self.partitions = State.ONGOING, now_s, set()
        self.partitions |= places
        return codes.NONE

    def verify(self, producer: Producer, place: Place) -> int:
        """Whether a partition belongs to the open transaction."""
        if (code := self._refusal(producer)) != codes.NONE:
            return code
        return codes.NONE if place in self.partitions else codes.ABORTABLE

    def end(self, producer: Producer, *, commit: bool, new_epochs: bool) -> Answer:
        """EndTxn: commits or aborts the transaction. Its markers are written afterwards."""
        again = new_epochs and self.epoch == producer[1] + 1
        if producer[0] != self.producer:
            return Answer(codes.INVALID_MAPPING)
        if not self._may_end(producer[1], again=again, new_epochs=new_epochs):
            return Answer(codes.FENCED)
        if self.state is State.ONGOING:
            self._end(State.COMMITTING if commit else State.ABORTING, new_epochs=new_epochs)
            return self._ended()
        if self.state in _ENDING:
            return Answer(codes.CONCURRENT if self.committing == commit else codes.INVALID_STATE)
        if self.state in _ENDED and (again or not new_epochs):
            same = self.state is (State.COMMITTED if commit else State.ABORTED)
            return Answer(codes.NONE, (self.producer, self.epoch)) if same else Answer(codes.INVALID_STATE)
        if commit or not new_epochs:
            return Answer(codes.INVALID_STATE)
        self.partitions = set()
        self._end(State.ABORTING, new_epochs=True)
        return self._ended()

    def complete(self) -> None:
        """All markers are written."""
        self.state = State.COMMITTED if self.committing else State.ABORTED
        self.partitions = set()

    def _refusal(self, producer: Producer) -> int:
        if producer[0] != self.producer:
            return codes.INVALID_MAPPING
        if producer[1] != self.epoch:
            return codes.FENCED
        return codes.CONCURRENT if self.state in _ENDING else codes.NONE

    def _may_end(self, epoch: int, *, again: bool, new_epochs: bool) -> bool:
        if not new_epochs or self.state in {State.ONGOING, State.EMPTY}:
            return epoch == self.epoch
        return again or (self.state in _ENDED and epoch == self.epoch)

    def _end(self, state: State, *, new_epochs: bool) -> None:
        self.state, self.new_epochs, self.number = state, new_epochs, self.number + 1
        if new_epochs:
            self.epoch, self.last_epoch = self.epoch + 1, self.epoch

    def _ended(self) -> Answer:
        producer = (self.producer, self.epoch) if self.new_epochs else NO_PRODUCER
        return Answer(codes.NONE, producer, ends=True)
