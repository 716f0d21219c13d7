"""Records whose writer schema is not available yet: a slice ends before the first of them, and is read again later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from connectors.formats.avro_buffer import WIRE_HEADER_BYTES
from connectors.formats.binary_column import BinaryColumn, Ints
from operators.core.errors import ExternalError

#: Eight bytes as one integer, the first byte as the most significant one.
_WORD = np.dtype(">u8")


class Wait(NamedTuple):
    """The offset at which reading a partition stops, and the reason: the schema that is missing, and why."""

    offset: int
    reason: str


def shown_wait(place: str, reason: str) -> str:
    """A wait as text, for the state of a source and of the queries that read it.

    >>> shown_wait("orders/0/17", "schema 9999: it is not in the registry")
    'waiting for schema 9999 at orders/0/17: it is not in the registry'
    """
    awaited, _, why = reason.partition(": ")
    return f"waiting for {awaited} at {place}: {why}"


def first_of(waits: Sequence[str]) -> str:
    """The first of several waits, and the number of the others, as text.

    >>> first_of(["waiting for a", "waiting for b"]), first_of(["waiting for a"])
    ('waiting for a, and 1 more', 'waiting for a')
    """
    return waits[0] if len(waits) == 1 else f"{waits[0]}, and {len(waits) - 1} more"


def first_awaited(bodies: Sequence[bytes | None], writer: Callable[[int], object]) -> tuple[int, str] | None:
    """The index of the first body, in Confluent's wire format, whose schema `writer` cannot return, and why; None if
    all bodies can be decoded or refused.

    >>> first_awaited([b"", bytes([0, 0, 0, 0, 7, 4]), bytes([0, 0, 0, 0, 8, 4])], {7: "a schema"}.__getitem__)
    (2, 'schema 8: it is not in the registry')
    """
    ids = _schema_ids(bodies)
    awaited: dict[int, str] = {}
    for schema_id in _distinct(ids):
        try:
            writer(schema_id)
        except LookupError:
            awaited[schema_id] = f"schema {schema_id}: it is not in the registry"
        except ExternalError as error:
            awaited[schema_id] = f"schema {schema_id}: the registry cannot be asked: {error}"
    if not awaited:
        return None
    at = int(np.flatnonzero(np.isin(ids, list(awaited)))[0])
    return at, awaited[int(ids[at])]


def _schema_ids(bodies: Sequence[bytes | None]) -> Ints:
    """The schema id of each body; -1 for a body without one."""
    column = bodies if isinstance(bodies, BinaryColumn) else BinaryColumn.of([body or b"" for body in bodies])
    if not len(column):
        return np.zeros(0, np.int64)
    words = np.ndarray((len(column.raw) - _WORD.itemsize + 1,), _WORD, column.raw, strides=(1,))[column.starts]
    heads = (words >> 8 * (_WORD.itemsize - WIRE_HEADER_BYTES)).astype(np.int64)
    with_id = (column.sizes >= WIRE_HEADER_BYTES) & (heads >> 32 == 0)  # the first byte is zero
    return heads if with_id.all() else np.where(with_id, heads, -1)


def _distinct(ids: Ints) -> list[int]:
    """The schema ids that occur, in ascending order. Usually there is only one, which is found without sorting."""
    if not len(ids) or (ids == ids[0]).all():
        ids = ids[:1]
    return [schema_id for schema_id in np.unique(ids).tolist() if schema_id >= 0]
