"""What a partition knows of each producer: its epoch, its last batches, and where its transaction begins.

The checks are those of Kafka: a batch of an older epoch is refused, one of the last five batches is recognised as a
duplicate, and sequence numbers must have no gap.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from connectors.simulation.kafka import codes
from connectors.simulation.kafka.batches import NO_SEQUENCE, Batch

_NO_EPOCH = -1
_KEPT_BATCHES = 5
_LAST_SEQUENCE = (1 << 31) - 1


@dataclass(eq=False)
class Verification:
    """A question to the transaction coordinator whether a partition belongs to a transaction. A marker that comes
    before the answer makes the answer invalid, because another transaction has begun since.
    """

    epoch: int
    #: The least sequence number of the batches that wait for the answer.
    sequence: int
    #: Whether the coordinator adds the partition, as in KIP-890.
    adds: bool


@dataclass
class ProducerState:
    """The state of one producer in one partition."""

    epoch: int = _NO_EPOCH
    batches: deque[Batch] = field(default_factory=lambda: deque(maxlen=_KEPT_BATCHES))
    #: The offset of the first record of the open transaction; None without one.
    first_offset: int | None = None
    coordinator_epoch: int = -1
    verification: Verification | None = None

    def in_transaction(self, epoch: int) -> bool:
        """Whether a transaction of an epoch is open in the partition."""
        return self.first_offset is not None and self.epoch == epoch

    def duplicate(self, batch: Batch) -> Batch | None:
        """The earlier batch that has the same records as this one, if it is one of the last five."""
        if batch.epoch != self.epoch or batch.sequence == NO_SEQUENCE:
            return None
        wanted = (batch.sequence, batch.last_sequence)
        return next((each for each in self.batches if (each.sequence, each.last_sequence) == wanted), None)

    def verify(self, batch: Batch, *, adds: bool) -> Verification | None:
        """Begins to verify that the partition belongs to the transaction; None if that is known."""
        if self.in_transaction(batch.epoch):
            return None
        if self.verification is None or batch.epoch > self.verification.epoch:
            self.verification = Verification(batch.epoch, batch.sequence, adds)
        elif batch.epoch == self.verification.epoch:
            self.verification.sequence = min(self.verification.sequence, batch.sequence)
        return self.verification

    def refusal(self, batch: Batch, verified: Verification | None, *, verification: bool) -> int:
        """Why a batch of a client is refused, as an error code; 0 if it is not. `verified` is the verification with
        which the batch comes, and `verification` says whether the broker needs one.
        """
        if batch.epoch < self.epoch:
            return codes.INVALID_EPOCH
        if batch.transactional and not self.in_transaction(batch.epoch):
            current = self.verification
            if verification and (verified is None or verified is not current):
                return codes.INVALID_STATE
        if not self._in_sequence(batch):
            return codes.OUT_OF_ORDER
        if self.first_offset is not None and not batch.transactional:
            return codes.INVALID_STATE
        return codes.NONE

    def _in_sequence(self, batch: Batch) -> bool:
        asked = self.verification
        if asked is not None and (
            batch.sequence > asked.sequence or (asked.adds and batch.sequence and self.epoch == _NO_EPOCH)
        ):
            return False
        if self.epoch == _NO_EPOCH:
            return True
        if batch.epoch != self.epoch:
            return batch.sequence == 0
        last = self.batches[-1].last_sequence if self.batches else NO_SEQUENCE
        return batch.sequence == last + 1 or (batch.sequence == 0 and last == _LAST_SEQUENCE)

    def take(self, batch: Batch) -> None:
        """Records an appended batch of a client."""
        self._move_to(batch.epoch)
        self.batches.append(batch)
        if batch.transactional:
            self.verification = None
            if self.first_offset is None:
                self.first_offset = batch.base_offset

    def marker_refusal(self, epoch: int, coordinator_epoch: int, *, new_epochs: bool) -> int:
        """Why a marker is refused, as an error code. If each end of a transaction begins a new epoch, the marker has
        the new one; a marker that is written again is accepted once the transaction has ended.
        """
        again = epoch == self.epoch and self.first_offset is None
        if epoch < self.epoch or (new_epochs and epoch == self.epoch and not again):
            return codes.INVALID_EPOCH
        return codes.COORDINATOR_FENCED if coordinator_epoch < self.coordinator_epoch else codes.NONE

    def end(self, epoch: int, coordinator_epoch: int) -> int | None:
        """Records an appended marker; returns the first offset of the transaction that it ends."""
        self._move_to(epoch)
        first, self.first_offset, self.verification = self.first_offset, None, None
        self.coordinator_epoch = coordinator_epoch
        return first

    def _move_to(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()
