"""The changes among the records of a result topic or of a table's log, column by column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from connectors.formats.binary_column import Ints
from connectors.kafka.client.names import BY_HEADER, HEARTBEAT_HEADER, OP_HEADER, TS_HEADER
from connectors.kafka.client.topics import Partition
from connectors.kafka.logs.internal_log import why_foreign_writer
from connectors.kafka.logs.result_ends import header_instants
from connectors.kafka.records.log_pieces import LogPiece
from operators.core.delta import BEGINNING

Flags = NDArray[np.bool_]
_REMOVES = pl.Series([b"-"], dtype=pl.Binary)


class Place(NamedTuple):
    """Where a record is."""

    topic: str
    partition: int
    offset: int


#: Called for each record that is left out, with the reason.
Refused = Callable[[Place, str], None]


@dataclass(frozen=True, slots=True)
class Changes:
    """Consecutive changes: their instants, whether the row goes, the keys, and the rows."""

    instants: Ints
    gone: Flags
    keys: Sequence[bytes | None]
    rows: Sequence[bytes | None]

    def __len__(self) -> int:
        return len(self.instants)

    @property
    def bytes(self) -> int:
        """The number of bytes of the keys and rows."""
        return sum(sum(map(len, filter(None, texts))) for texts in (self.keys, self.rows))

    def where(self, wanted: Flags) -> Changes:
        """The changes that the mask selects."""
        if wanted.all():
            return self
        keys, rows = list(compress(self.keys, wanted)), list(compress(self.rows, wanted))
        return Changes(self.instants[wanted], self.gone[wanted], keys, rows)

    def in_order(self) -> Changes:
        """The changes in the order of their instants; those of one instant keep their order."""
        if (self.instants[1:] >= self.instants[:-1]).all():
            return self
        order = np.argsort(self.instants, kind="stable")
        keys, rows = ([texts[at] for at in order.tolist()] for texts in (self.keys, self.rows))
        return Changes(self.instants[order], self.gone[order], keys, rows)


def joined(parts: Sequence[Changes]) -> Changes:
    """All changes, one part after another."""
    if len(parts) == 1:
        return parts[0]
    instants, gone = ([getattr(part, name) for part in parts] for name in ("instants", "gone"))
    keys, rows = ([text for part in parts for text in getattr(part, name)] for name in ("keys", "rows"))
    none = np.empty(0, np.int64)
    return Changes(np.concatenate([none, *instants]), np.concatenate([none.astype(bool), *gone]), keys, rows)


class ChangeReader:
    """Tells changes from heartbeats and from records that are neither.

    A record is left out, and `refused` is called for it, if it is neither a change nor a heartbeat, if its value is
    `bad`, or if it does not name the cluster `marked_by` as its writer. With `marked_by` None, records need not name
    their writer.
    """

    def __init__(self, refused: Refused, bad: frozenset[bytes], marked_by: str | None) -> None:
        self.bad, self._refused, self._marked_by = bad, refused, marked_by
        #: The greatest heartbeat of the log: no change with an instant below it follows.
        self.frontier = BEGINNING

    def read(self, piece: LogPiece, source: Partition) -> Changes:
        """The changes among records of a partition of a topic."""
        rows, names = list(piece.values()), (BY_HEADER, TS_HEADER, OP_HEADER, HEARTBEAT_HEADER)
        by, ts, op, beat = (piece.header(name) for name in names)
        instants = header_instants(ts)
        left = np.ones(len(rows), bool)
        for at, reason in self._others(rows, by, instants, beat, left):
            self._refused(Place(*source, int(piece.offsets[at])), reason)
        gone = (op == _REMOVES).fill_null(False).to_numpy()
        return Changes(instants.fill_null(0).to_numpy(), gone, list(piece.keys()), rows).where(left)

    def _others(
        self, rows: Sequence[bytes | None], by: pl.Series, instants: pl.Series, beat: pl.Series, left: Flags
    ) -> Iterable[tuple[int, str]]:
        """Unmarks in `left` the records that are not changes; yields the numbers of those that are left out, with the
        reasons."""
        suspect = instants.is_null() | beat.is_not_null()
        if self._marked_by is not None:
            suspect |= ~by.bin.starts_with(f"{self._marked_by}/".encode()).fill_null(False)
        if self.bad:
            suspect |= pl.Series([row in self.bad for row in rows], dtype=pl.Boolean)
        for at in suspect.arg_true().to_list():
            reason = self._why_no_change(rows[at], by[at], instants[at], beat[at : at + 1])
            left[at] = reason is None
            if reason:
                yield at, reason

    def _why_no_change(self, row: bytes | None, by: bytes | None, instant: int | None, beat: pl.Series) -> str | None:
        """Why a record is left out; "" for a heartbeat, None for a change."""
        if self._marked_by is not None and (foreign := why_foreign_writer(by, self._marked_by)) is not None:
            return foreign
        if row is None and beat[0] is not None:
            return self._take_heartbeat(header_instants(beat)[0])
        if instant is None:
            return "not a change: it has no instant"
        return "not a row of the declared columns" if row in self.bad else None

    def _take_heartbeat(self, instant: int | None) -> str:
        if instant is None:
            return "a heartbeat without an instant"
        self.frontier = max(self.frontier, instant)
        return ""
