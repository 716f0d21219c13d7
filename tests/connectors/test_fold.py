"""Folding changes gives the relation at an instant, whatever pieces the changes come in."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from connectors.kafka.logs.fold import ROW_BYTES, Fold
from tests.support.message_pieces import piece_of

SOURCE = ("t", 0)


@dataclass
class Record:
    """A record with the interface of the client's messages."""

    k: bytes | None
    v: bytes | None
    heads: dict[str, bytes]

    def key(self) -> bytes | None:
        return self.k

    def value(self) -> bytes | None:
        return self.v

    def headers(self) -> list[tuple[str, bytes]]:
        return list(self.heads.items())


def change(key: bytes | None, value: bytes | None, ts: int, op: str = "+") -> Record:
    heads = {"dsms-ts": str(ts).encode()} | ({} if op == "+" else {"dsms-op": op.encode()})
    return Record(key, value, heads)


KEYED = [
    change(b"a", b"1", 1),
    change(b"b", b"2", 2),
    change(b"a", b"3", 3, "u"),
    change(b"b", None, 4, "-"),
    Record(None, None, {"dsms-heartbeat": b"9"}),
    change(b"a", b"5", 12, "u"),
]
BAG = [change(None, b"x", 1), change(None, b"x", 1), change(None, b"y", 2), change(None, b"x", 3, "-")]


@pytest.mark.parametrize("cut", range(7))
@pytest.mark.parametrize(
    ("at", "rows", "later"), [(0, [], 5), (2, [b"1", b"2"], 3), (3, [b"3", b"2"], 2), (11, [b"3"], 1), (12, [b"5"], 0)]
)
def test_keyed(at: int, rows: list[bytes], later: int, cut: int) -> None:
    fold = Fold(keyed=True, at=at)
    for piece in (KEYED[:cut], KEYED[cut:]):
        fold.take(piece_of(piece), SOURCE)
    assert (list(fold.values()), fold.later, fold.frontier) == (rows, later, 9)
    assert fold.bytes == sum(1 + len(row) + ROW_BYTES for row in rows)


@pytest.mark.parametrize(("at", "rows"), [(1, [b"x", b"x"]), (2, [b"x", b"x", b"y"]), (3, [b"x", b"y"])])
def test_keyless(at: int, rows: list[bytes]) -> None:
    fold = Fold(keyed=False, at=at)
    fold.take(piece_of(BAG), SOURCE)
    assert fold.bytes == sum(len(row) + ROW_BYTES for row in rows)
    assert list(fold.values()) == rows


def test_records_without_the_mark_of_the_cluster_do_not_count() -> None:
    """Neither their changes nor their heartbeats are taken."""

    def by(record: Record, writer: str) -> Record:
        return Record(record.k, record.v, {**record.heads, "dsms-by": writer.encode()})

    ours = [by(record, "main/results") for record in KEYED[:2]]
    forged = [change(b"a", b"forged", 2), by(change(b"b", None, 2, "-"), "other/results"), by(KEYED[2], "mainly")]
    promise = Record(None, None, {"dsms-heartbeat": b"99"})
    reasons: list[str] = []
    fold = Fold(keyed=True, marked_by="main", refused=lambda _, reason: reasons.append(reason))
    fold.take(piece_of([ours[0], *forged, promise, ours[1]]), SOURCE)
    assert (list(fold.values()), fold.last) == ([b"1", b"2"], 2)
    assert fold.frontier < 99
    assert reasons == [
        "it does not name its writer",
        'written by "other/results", not by cluster "main"',
        'written by "mainly", not by cluster "main"',
        "it does not name its writer",
    ]
