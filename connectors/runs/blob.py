"""The form of a run in shared memory: numbered pieces, and the checksum of the whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from zlib import crc32

import polars as pl

from operators.core.decoding import Malformed
from operators.core.frame_ipc import frame_from_ipc, untrusted_frame

#: A Redis string holds up to 512 MB; pieces of this size keep every command short.
CHUNK = 48 * 1024 * 1024
#: The field of the checksum.
CHECK = "crc32"


def run_fields(blob: bytes) -> dict[str, bytes]:
    """The fields of a run: its pieces by number, and the checksum of the whole.

    >>> run_fields(b"abc")
    {'0': b'abc', 'crc32': b'891568578'}
    """
    pieces = {str(at // CHUNK): blob[at : at + CHUNK] for at in range(0, len(blob), CHUNK)}
    return {**pieces, CHECK: str(crc32(blob)).encode()}


def frame_of_run(fields: Mapping[bytes, bytes]) -> pl.DataFrame:
    """The run with these fields. Raises Malformed if it is damaged. Older versions wrote no checksum: Arrow validates
    their runs."""
    pieces = {name: piece for name, piece in fields.items() if name != CHECK.encode()}
    blob = b"".join(pieces[number] for number in (str(at).encode() for at in range(len(pieces))) if number in pieces)
    if len(blob) != sum(map(len, pieces.values())):
        raise Malformed("pieces are missing")
    wanted = fields.get(CHECK.encode())
    if wanted is None:
        return untrusted_frame(blob)
    if wanted != str(crc32(blob)).encode():
        raise Malformed("the checksum differs")
    return frame_from_ipc(blob)


def in_chunks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of `CHUNK` bytes, the last one shorter."""
    held = bytearray()
    for piece in pieces:
        held += piece
        while len(held) >= CHUNK:
            yield bytes(held[:CHUNK])
            del held[:CHUNK]
    if held:
        yield bytes(held)
