"""Changes are told from other records column by column as they would be one by one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from connectors.kafka.logs.changes import ChangeReader, Changes, Place, joined
from connectors.kafka.logs.internal_log import why_foreign_result
from operators.core.delta import BEGINNING, FOREVER
from tests.support.message_pieces import piece_of


@dataclass(frozen=True)
class Record:
    """A record with the interface of the client's messages."""

    k: bytes | None
    v: bytes | None
    heads: dict[str, bytes]

    def key(self) -> bytes | None:
        return self.k

    def value(self) -> bytes | None:
        return self.v

    def partition(self) -> int:
        return 0

    def headers(self) -> list[tuple[str, bytes]]:
        return list(self.heads.items())


NUMBERS = st.sampled_from([b"", b"-", b"+1", b" 1", b"--1", b"1\n", b"\xff1", "\u0663".encode(), b"007", b"-0"])
INSTANTS = NUMBERS | st.integers(-(2**70), 2**70).map(lambda n: str(n).encode()) | st.integers(0, 9).map(b"%d".__mod__)
TEXTS = st.sampled_from([b"", b"a", b"b"])
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "dsms-by": st.sampled_from([b"main/0-1", b"main", b"mainly/0", b"", b"\xff/1"]),
        "dsms-ts": INSTANTS,
        "dsms-op": st.sampled_from([b"+", b"u", b"-", b"", b"--"]),
        "dsms-heartbeat": INSTANTS,
    },
)
RECORDS = st.lists(st.builds(Record, st.none() | TEXTS, st.none() | TEXTS, HEADERS), max_size=8)


def number(text: bytes | None) -> int | None:
    """The instant of a text of ASCII digits, of which some are too large."""
    digits = (text or b"").removeprefix(b"-")
    if not digits or len(text or b"") > 20 or set(digits) - set(b"0123456789"):
        return None
    return int(text or b"") if abs(int(digits)) < FOREVER else None


@given(RECORDS, st.sampled_from([None, "main"]), st.sampled_from([frozenset(), frozenset([b"b"])]))
def test_records_are_told_apart_as_one_by_one(
    records: list[Record], marked_by: str | None, bad: frozenset[bytes]
) -> None:
    changes, refused, frontier = [], [], BEGINNING
    for offset, record in enumerate(records):
        ts, beat = number(record.heads.get("dsms-ts")), record.heads.get("dsms-heartbeat")
        if (foreign := why_foreign_result(record, marked_by)) is not None:  # type: ignore[arg-type]
            refused.append((offset, foreign))
        elif record.v is None and beat is not None:
            if number(beat) is None:
                refused.append((offset, "a heartbeat without an instant"))
            frontier = max(frontier, number(beat) or frontier)
        elif ts is None:
            refused.append((offset, "not a change: it has no instant"))
        elif record.v in bad:
            refused.append((offset, "not a row of the declared columns"))
        else:
            changes.append((ts, record.heads.get("dsms-op") == b"-", record.k, record.v))
    left_out: list[tuple[Place, str]] = []
    reader = ChangeReader(lambda *args: left_out.append(args), bad, marked_by)
    read = reader.read(piece_of(records), ("t", 0))
    assert told(read) == changes
    assert left_out == [(Place("t", 0, offset), reason) for offset, reason in refused]
    assert reader.frontier == frontier


def told(changes: Changes) -> list[tuple[object, ...]]:
    columns = (changes.instants.tolist(), changes.gone.tolist(), changes.keys, changes.rows)
    return list(zip(*columns, strict=True))


ITEMS = st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.none() | TEXTS, st.none() | TEXTS), max_size=6)


def changes_of(items: list[tuple[int, bool, bytes | None, bytes | None]]) -> Changes:
    instants, gone, keys, rows = (list(column) for column in zip(*items, strict=True)) if items else ([], [], [], [])
    return Changes(np.array(instants, np.int64), np.array(gone, bool), keys, rows)  # type: ignore[arg-type]


@given(st.lists(ITEMS, max_size=3), st.integers(0, 4))
def test_parts_are_joined_selected_and_ordered_as_lists_are(
    parts: list[list[tuple[int, bool, bytes | None, bytes | None]]], at: int
) -> None:
    items = [item for part in parts for item in part]
    changes = joined([changes_of(part) for part in parts])
    assert told(changes) == items
    assert told(changes.where(changes.instants <= at)) == [item for item in items if item[0] <= at]
    assert told(changes.in_order()) == sorted(items, key=lambda item: item[0])
    assert changes.bytes == sum(len(text or b"") for item in items for text in item[2:])
