"""Reads ranges of offsets of a log: as columns where the native part can, else as messages of confluent-kafka.

Both paths keep this contract:

- The records of a range come in offset order, each once; offsets may have gaps, which are no error. A range that ends
  with a gap (a control record, or records of an aborted transaction) ends there without waiting.
- Only committed records are read: those of aborted transactions are left out, and those of open ones not waited for,
  because the caller asks for ranges below the last stable offset.
- The offset, timestamp, key, value and headers of a record are the same on both paths.
- If a range can never be read (its records or its topic are gone), the error is its last piece. A failure that may pass
  is raised: a broker that delivers nothing for 30 s, or a batch whose checksum does not match.
- Memory is bounded: a piece ends at about 32 MiB. The column path refuses a batch that would expand to more than
  256 MiB; the message path asks for small responses instead, because librdkafka expands each as a whole.

`FetchReader` (columns) is used if the native part is built and not switched off, and if `BrokerConnections` supports
all settings of the Kafka client. `RangeReader` (messages) reads everything else: with SASL mechanisms other than PLAIN
and SCRAM (GSSAPI, OAUTHBEARER), with settings that only librdkafka has, without the native part, and from the first
record in a format before Kafka 0.11 on. Readers of few records (results, heartbeats, replays) use `RangeReader`
directly. It can therefore not be dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.records.fetch_reader import FetchReader, readable
from connectors.kafka.records.log_pieces import LogPieces, MessagePiece
from connectors.kafka.records.partition_readers import OffsetRange
from connectors.kafka.records.range_reader import Pieces, RangeReader
from connectors.kafka.records.record_batches import OldFormat
from operators.core.errors import DsmsError


class LogReader:
    """Reads ranges of many partitions as `RangeReader` does, with the same records and errors, column by column."""

    def __init__(self, settings: KafkaSettings, *, native: bool = True) -> None:
        """If `native` is false, the native part is not used."""
        self._messages = RangeReader(settings)
        self._columns = FetchReader(settings) if native and readable(settings) else None

    def read(self, ranges: Sequence[OffsetRange]) -> list[LogPieces]:
        """The committed records of each range, in at least one piece. All ranges are fetched concurrently; each must be
        read to its end before `read` is called again.

        If a range can never be read, because its records or its topic are gone, its last piece is the error. A
        transient failure, for example if no record arrives for 30 s, is raised.
        """
        if self._columns is None:
            return [_as_pieces(pieces) for pieces in self._messages.read(ranges)]
        read = self._columns.read(ranges)
        return [self._in_any_format(pieces, wanted) for pieces, wanted in zip(read, ranges, strict=True)]

    def close(self) -> None:
        """Closes all connections."""
        self._messages.close()
        if self._columns is not None:
            self._columns.close()

    def _in_any_format(self, pieces: LogPieces, wanted: OffsetRange) -> LogPieces:
        """Passes pieces on; from the first record in a format before Kafka 0.11 on, reads the range as messages."""
        at = wanted.start
        for piece in pieces:
            if isinstance(piece, OldFormat):
                yield from _as_pieces(self._messages.read([replace(wanted, start=at)])[0])
                return
            if not isinstance(piece, DsmsError) and len(piece):
                at = int(piece.offsets[-1]) + 1
            yield piece
            del piece


def _as_pieces(pieces: Pieces) -> LogPieces:
    for piece in pieces:
        yield piece if isinstance(piece, DsmsError) else MessagePiece(piece)
        del piece
