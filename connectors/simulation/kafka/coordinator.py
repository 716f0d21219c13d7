"""The transaction coordinators of a cluster. Their state is replicated, so another broker continues after a failure."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable
from typing import Protocol

from connectors.simulation.kafka import codes
from connectors.simulation.kafka.image import Leader
from connectors.simulation.kafka.transaction import Answer, Place, Producer, State, Transaction
from connectors.simulation.scheduler import Scheduler

#: Coordinators look for transactions that have timed out in this interval.
_TIMEOUT_CHECK_S = 10.0
_LONGEST_TIMEOUT_MS = 900_000
_AGAIN_S = 0.1


class Markers(Protocol):
    """Writes the markers that end a transaction in a partition."""

    def __call__(self, place: Place, transaction: Transaction, coordinator_epoch: int) -> bool:
        """Writes a marker; returns whether that is done, or False if it must be tried again."""
        ...


class Coordinator:
    """Keeps the transactions of all transactional ids."""

    def __init__(
        self,
        scheduler: Scheduler,
        leaders: Callable[[], tuple[Leader, ...]],
        new_epochs: Callable[[], bool],
        write: Markers,
        marker_delay_s: Callable[[], float],
    ) -> None:
        self._scheduler, self._leaders, self._new_epochs = scheduler, leaders, new_epochs
        self._write, self._delay = write, marker_delay_s
        self.transactions: dict[str, Transaction] = {}
        #: The instants at which the new coordinators of partitions have loaded their state.
        self._loaded: dict[int, float] = {}
        self._next_producer = 0

    def place_of(self, transactional_id: str) -> int:
        """The partition of the log of transactions that has a transactional id."""
        return zlib.crc32(transactional_id.encode()) % len(self._leaders())

    def load(self, partition: int, seconds: float) -> None:
        """A new coordinator of a partition reads its state, which takes some seconds."""
        self._loaded[partition] = self._scheduler.now + seconds

    def refusal(self, transactional_id: str, broker: int) -> int:
        """Why a broker cannot answer for a transactional id, as an error code."""
        partition = self.place_of(transactional_id)
        if self._leaders()[partition].broker != broker:
            return codes.NOT_COORDINATOR
        return codes.COORDINATOR_LOADING if self._loaded.get(partition, 0.0) > self._scheduler.now else codes.NONE

    def new_producer(self) -> int:
        """The id of a new producer."""
        self._next_producer += 1
        return self._next_producer

    def initialize(self, transactional_id: str, timeout_ms: int, expected: Producer) -> Answer:
        """InitProducerId."""
        if not transactional_id:
            return Answer(codes.INVALID_REQUEST)
        if not 0 < timeout_ms <= _LONGEST_TIMEOUT_MS:
            return Answer(codes.INVALID_TIMEOUT)
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            transaction = Transaction(transactional_id, self.new_producer(), timeout_ms)
            self.transactions[transactional_id] = transaction
        if transaction.exhausted and expected[1] in (-1, transaction.epoch):
            transaction.rotate(self.new_producer())
        answer = transaction.initialize(expected, timeout_ms, new_epochs=self._new_epochs())
        if answer.ends:
            self._write_markers(transaction)
        return answer

    def add(self, transactional_id: str, producer: Producer, places: Iterable[Place]) -> int:
        """AddPartitionsToTxn."""
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            return codes.INVALID_MAPPING
        before = transaction.state
        code = transaction.add(producer, set(places), self._scheduler.now)
        if before is not State.ONGOING and transaction.state is State.ONGOING:
            self._watch(transaction)
        return code

    def verify(self, transactional_id: str, producer: Producer, place: Place) -> int:
        """AddPartitionsToTxn of a broker that only asks whether a partition belongs to a transaction."""
        transaction = self.transactions.get(transactional_id)
        return codes.INVALID_MAPPING if transaction is None else transaction.verify(producer, place)

    def end(self, transactional_id: str, producer: Producer, *, commit: bool, new_epochs: bool) -> Answer:
        """EndTxn."""
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            return Answer(codes.INVALID_MAPPING)
        answer = transaction.end(producer, commit=commit, new_epochs=new_epochs)
        if answer.ends:
            self._write_markers(transaction)
        return answer

    def _write_markers(self, transaction: Transaction) -> None:
        left = set(transaction.partitions)
        if not left:
            self._scheduler.call_at(self._scheduler.now + self._delay(), transaction.complete)
        for place in sorted(left):
            self._later(self._delay(), transaction, place, left)

    def _later(self, seconds: float, transaction: Transaction, place: Place, left: set[Place]) -> None:
        def write() -> None:
            partition = self.place_of(transaction.id)
            ready = self._leaders()[partition].broker >= 0 and self._loaded.get(partition, 0.0) <= self._scheduler.now
            if not ready or not self._write(place, transaction, self._leaders()[partition].epoch):
                self._later(_AGAIN_S, transaction, place, left)
                return
            left.discard(place)
            if not left:
                self._scheduler.call_at(self._scheduler.now + self._delay(), transaction.complete)

        self._scheduler.call_at(self._scheduler.now + seconds, write)

    def _watch(self, transaction: Transaction) -> None:
        """Aborts the transaction at the first check after its timeout, if it is still open."""
        started = transaction.started_s
        due = started + transaction.timeout_ms / 1000
        check = (math.floor(due / _TIMEOUT_CHECK_S) + 1) * _TIMEOUT_CHECK_S

        def expire() -> None:
            if transaction.state is State.ONGOING and transaction.started_s == started:
                self._scheduler.record(f"kafka: the transaction of {transaction.id} has timed out")
                transaction.fence(new_epochs=self._new_epochs())
                self._write_markers(transaction)

        self._scheduler.call_at(check, expire)
