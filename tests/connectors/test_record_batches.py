"""Reading record batches into columns, compared with kafka-python's reader and confluent-kafka's messages."""

from __future__ import annotations

import gzip
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import cramjam
import numpy as np
import pytest
from confluent_kafka import Message
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords
from kafka.record.util import calc_crc32c

from connectors.formats.binary_column import BinaryColumn
from connectors.kafka.records import record_batches
from connectors.kafka.records.fetch_reader import _Fetched
from connectors.kafka.records.log_pieces import MessagePiece
from connectors.kafka.records.record_batches import Aborted, BatchPiece, OldFormat, scan, visible
from connectors.native.library import missing
from operators.core.errors import ExternalError

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

HEADER = 61
CODECS = {
    "none": (0, bytes),
    "gzip": (1, gzip.compress),
    "snappy": (2, cramjam.snappy.compress_raw),
    "lz4": (3, cramjam.lz4.compress),
    "zstd": (4, cramjam.zstd.compress),
}
COMMIT, ABORT = 1, 0


@dataclass(frozen=True)
class Record:
    """A record to be written: its offset within the batch, and its content."""

    delta: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    time: int = 1_700_000_000_000


def batch(records: list[Record], base: int, codec: str = "none", producer: int = -1) -> bytes:
    """A batch as a broker sends it; with a producer it is part of a transaction."""
    builder = DefaultRecordBatchBuilder(2, 0, producer >= 0, producer, 0, 0, 1 << 30)
    for record in records:
        builder.append(record.delta, record.time, record.key, record.value, list(record.headers))
    return repacked(bytes(builder.build()), base, codec)


def repacked(plain: bytes, base: int, codec: str = "none", more_attributes: int = 0) -> bytes:
    """The batch with compressed records, further attributes and another base offset, and with the new checksum."""
    number, compress = CODECS[codec]
    body = bytes(compress(plain[HEADER:]))
    attributes = struct.unpack_from(">H", plain, 21)[0] | number | more_attributes
    head = bytearray(plain[:HEADER])
    struct.pack_into(">qi", head, 0, base, HEADER - 12 + len(body))
    struct.pack_into(">H", head, 21, attributes)
    out = head + body
    struct.pack_into(">I", out, 17, calc_crc32c(memoryview(out)[21:]))
    return bytes(out)


def control(base: int, producer: int, kind: int) -> bytes:
    """The control batch that ends a transaction."""
    builder = DefaultRecordBatchBuilder(2, 0, True, producer, 0, -1, 1 << 30)
    builder.append(0, 1, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0), [])
    return repacked(bytes(builder.build()), base, more_attributes=32)


texts = st.none() | st.binary(max_size=40)
names = st.sampled_from(["dsms-ts", "dsms-op", "other", ""])
record_lists = st.lists(
    st.builds(
        Record,
        st.integers(1, 3),
        texts,
        texts,
        st.lists(st.tuples(names, texts), max_size=4).map(tuple),
        st.integers(0, 2**45),
    ),
    min_size=1,
    max_size=12,
)


def numbered(records: list[Record]) -> list[Record]:
    """The records with ascending offsets, with gaps as left by compaction."""
    at, out = -1, []
    for record in records:
        at += record.delta
        out.append(Record(at, record.key, record.value, record.headers, record.time))
    return out


@settings(max_examples=150)
@given(
    st.lists(st.tuples(record_lists, st.sampled_from(sorted(CODECS))), min_size=1, max_size=4),
    st.integers(0, 40),
    st.integers(0, 40),
)
def test_columns_are_what_other_readers_read(parts, skipped: int, taken: int) -> None:
    data, plain, base = b"", b"", 100
    for records, codec in parts:
        body = numbered(records)
        data += batch(body, base, codec)
        plain += batch(body, base)
        base += body[-1].delta + 1
    least, end = 100 + skipped, 100 + skipped + taken
    expected = [record for part in iter(MemoryRecords(plain).next_batch, None) for record in part]
    expected = [record for record in expected if least <= record.offset < end]
    batches = scan(data + data[: len(data) // 3])  # the end of a response may be truncated
    piece = BatchPiece(data, batches[: len(parts)], least, end)
    assert piece.offsets.tolist() == [record.offset for record in expected]
    assert list(piece.values()) == [record.value for record in expected]
    assert list(piece.keys()) == [record.key for record in expected]
    assert piece.timestamps().tolist() == [record.timestamp for record in expected]
    for name in ("dsms-ts", "dsms-op", ""):
        assert piece.header(name).to_list() == [dict(record.headers).get(name) for record in expected]
    assert isinstance(piece.values(), BinaryColumn) == all(record.value is not None for record in expected)
    assert piece.size == sum(len(record.value or b"") for record in expected)


@given(record_lists)
def test_messages_give_the_same_columns(records: list[Record]) -> None:
    records = numbered(records)
    data = batch(records, 0)
    native = BatchPiece(data, scan(data), 0, 1000)
    messages = MessagePiece(
        [
            Message("t", 0, r.delta, r.key, r.value, headers=list(r.headers) or None, timestamp=(1, r.time))
            for r in records
        ]
    )
    assert len(native) == len(messages)
    assert native.offsets.tolist() == messages.offsets.tolist()
    assert native.timestamps().tolist() == messages.timestamps().tolist()
    assert list(native.values()) == messages.values()
    assert list(native.keys()) == messages.keys()
    assert native.header("dsms-ts").to_list() == messages.header("dsms-ts").to_list()


def test_aborted_transactions_and_control_batches_are_invisible() -> None:
    one = [Record(0, None, b"x")]
    data = b"".join(
        [
            batch(one, 0, producer=7),  # aborted at 3
            batch(one, 1, producer=8),  # committed
            batch(one, 2),  # not in a transaction
            control(3, 7, ABORT),
            batch(one, 4, producer=7),  # the next transaction of 7 commits
            control(5, 8, COMMIT),
            control(6, 7, COMMIT),
            batch(one, 7, producer=7),  # aborted; its end is not in the data yet
        ]
    )
    batches = scan(data)
    seen = visible(data, batches, [Aborted(7, 0), Aborted(7, 7)])
    assert batches["base_offset"][seen].tolist() == [1, 2, 4]
    assert batches["base_offset"][visible(data, batches, [])].tolist() == [0, 1, 2, 4, 7]


def test_the_time_of_the_broker_is_that_of_all_records() -> None:
    plain = batch([Record(0, None, b"a", time=5), Record(1, None, b"b", time=9)], 0)
    data = repacked(plain, 0, more_attributes=8)
    assert BatchPiece(data, scan(data), 0, 10).timestamps().tolist() == [9, 9]


@pytest.mark.parametrize("codec", [name for name in CODECS if name != "none"])
@pytest.mark.parametrize("size", [0, 100_000, 3 << 20])
def test_a_batch_of_which_little_is_left_by_compression(codec: str, size: int) -> None:
    data = batch([Record(0, b"k", bytes(size))], 0, codec)
    assert [bytes(value or b"") for value in BatchPiece(data, scan(data), 0, 1).values()] == [bytes(size)]


@pytest.mark.parametrize("codec", [name for name in CODECS if name != "none"])
def test_a_batch_that_would_fill_the_memory_is_refused(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = batch([Record(0, b"k", bytes(3 << 20))], 5, codec)
    monkeypatch.setattr(record_batches, "LARGEST_BATCH", 2 << 20)
    with pytest.raises(ExternalError, match="offset 5 cannot be decompressed into 2 MiB: ") as refused:
        BatchPiece(data, scan(data), 5, 6)
    assert not refused.value.retryable


def test_snappy_in_blocks_as_the_java_library_writes_it() -> None:
    plain = batch([Record(0, None, b"a" * 100)], 0)
    half = len(plain[HEADER:]) // 2
    blocks = [cramjam.snappy.compress_raw(part) for part in (plain[HEADER:][:half], plain[HEADER:][half:])]
    body = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    body += b"".join(struct.pack(">i", len(block)) + bytes(block) for block in blocks)
    CODECS["java"] = (2, lambda _: body)
    data = repacked(plain, 0, "java")
    assert list(BatchPiece(data, scan(data), 0, 10).values()) == [b"a" * 100]


def test_wrong_checksum_and_old_format_are_reported() -> None:
    data = bytearray(batch([Record(0, b"k", b"v")], 42))
    data[-1] ^= 1
    with pytest.raises(ExternalError, match="checksum of the batch at offset 42"):
        scan(bytes(data))
    data[16] = 1
    with pytest.raises(OldFormat):
        scan(bytes(data))


@settings(max_examples=400)
@given(record_lists, st.data())
@example([Record(1, None, b"")], None)
def test_malformed_bytes_are_errors(records: list[Record], data) -> None:
    """Any bytes with a correct checksum give rows or ExternalError, never another exception."""
    body = bytearray(batch(numbered(records), 0)[HEADER:])
    for _ in range(0 if data is None else data.draw(st.integers(0, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    if data is not None:
        body = body[: data.draw(st.integers(0, len(body)))]
    head = bytearray(batch(numbered(records), 0)[:HEADER])
    if data is not None:
        struct.pack_into(">i", head, 57, data.draw(st.integers(-2, 2**31 - 1)))
    CODECS["given"] = (0, lambda _: body)
    broken = repacked(bytes(head + b"\0"), 0, "given")
    try:
        batches = scan(broken)
        piece = BatchPiece(broken, batches, 0, 1 << 40)
        assert len(list(piece.values())) == len(piece) == len(piece.header("dsms-ts"))
        assert len(list(piece.keys())) == len(piece)
    except ExternalError as error:
        assert "malformed" in str(error)


@given(st.binary(max_size=300))
def test_random_bytes_are_errors_or_nothing(data: bytes) -> None:
    try:
        assert len(scan(data)) == 0
    except ExternalError as error:
        assert not isinstance(error, AssertionError)


BOMB = """
import resource, sys
import numpy as np
from connectors.kafka.records.fetch_reader import _Fetched
from connectors.kafka.records.record_batches import scan
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
data = open(sys.argv[1], "rb").read()
batches = scan(data)
before, at, sizes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0, []
fetched = _Fetched(data, batches, np.ones(len(batches), bool), len(batches))
while at < len(batches):
    piece, at = fetched.piece(at, len(batches))
    sizes += [len(value) for value in piece.values()]
    del piece
print(len(sizes), min(sizes), (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


def grown(size: int, codec: str) -> bytes:
    """A batch of one record of `size` zeros. Its checksum is computed only over the compressed bytes, which is fast."""
    number, compress = CODECS[codec]
    rest = b"\0\0\0\1" + varint(size) + bytes(size) + b"\0"  # attributes, time, offset, no key; value; no headers
    body = bytes(compress(varint(len(rest)) + rest))
    head = bytearray(batch([Record(0, None, b"")], 0)[:HEADER])
    struct.pack_into(">qi", head, 0, 0, HEADER - 12 + len(body))
    struct.pack_into(">H", head, 21, number)
    out = head + body
    struct.pack_into(">I", out, 17, calc_crc32c(memoryview(out)[21:]))
    return bytes(out)


def varint(number: int) -> bytes:
    """A number that is not negative, as a varint of Kafka's records."""
    left, out = number << 1, bytearray()
    while left > 127:
        out.append(left & 127 | 128)
        left >>= 7
    return bytes([*out, left])


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_many_batches_that_grow_are_not_in_memory_together(codec: str, tmp_path: Path) -> None:
    """A response of ten batches of 64 MiB each, 22 kB with Zstandard: the reader holds only one batch in memory."""
    size = 64 << 20
    one = grown(size, codec)
    response = tmp_path / "response"
    response.write_bytes(b"".join(struct.pack(">q", base) + one[8:] for base in range(10)))
    out = subprocess.run([sys.executable, "-c", BOMB, response], capture_output=True, text=True, check=True).stdout
    count, smallest, megabytes = map(int, out.split())
    assert (count, smallest) == (10, size)
    assert megabytes < 4 * 64, f"{megabytes} MiB for batches of 64 MiB"


def test_a_piece_ends_where_its_records_have_the_bytes_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_batches, "PIECE_BYTES", 3_000)
    data = b"".join(batch([Record(0, None, bytes(1_000)), Record(1, b"k", b"v")], 2 * at, "lz4") for at in range(10))
    fetched = _Fetched(data, scan(data), np.array([at != 4 for at in range(10)]), 20)
    at, offsets = 3, []
    while at < 18:
        piece, at = fetched.piece(at, 18)
        assert piece.batches <= 3
        assert piece.before(at - 1).offsets.tolist() == [each for each in piece.offsets.tolist() if each < at - 1]
        offsets.append(piece.offsets.tolist())
    assert sum(offsets, []) == [at for at in range(3, 18) if at not in (8, 9)]
    assert len(offsets) == 3
