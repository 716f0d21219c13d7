"""Records whose writer schema cannot be had yet: a slice ends before the first of them, and is read again later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from operators.core.errors import ExternalError

#: A zero byte and four bytes of schema id.
_PREFIX = 5


class Wait(NamedTuple):
    """Where the reading of a partition stops, and what it waits for."""

    offset: int
    reason: str


def first_awaited(bodies: Sequence[bytes | None], writer: Callable[[int], object]) -> tuple[int, str] | None:
    """The index of the first body, in Confluent's wire format, whose schema `writer` does not give, and why; None where
    all can be decoded or refused.

    >>> first_awaited([b"", bytes([0, 0, 0, 0, 7, 4]), bytes([0, 0, 0, 0, 8, 4])], {7: "a schema"}.__getitem__)
    (2, 'schema 8 is not in the registry')
    """
    awaited: dict[bytes, str] = {}
    for prefix in {body[:_PREFIX] for body in bodies if body and body[0] == 0 and len(body) >= _PREFIX}:
        schema_id = int.from_bytes(prefix[1:], "big")
        try:
            writer(schema_id)
        except LookupError:
            awaited[prefix] = f"schema {schema_id} is not in the registry"
        except ExternalError as error:
            awaited[prefix] = f"schema {schema_id} cannot be asked for: {error}"
    if not awaited:
        return None
    prefixes = ((at, body[:_PREFIX]) for at, body in enumerate(bodies) if body)
    return next((at, awaited[prefix]) for at, prefix in prefixes if prefix in awaited)
