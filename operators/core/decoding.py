"""Decoding documents that somebody else may have written: any bytes give a value or `Broken`, nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec

#: An integer of 64 bits, as instants and offsets are.
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
#: An offset, a count or a number of a partition.
Natural = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_PLACE = re.compile(r" \(byte \d+\)|, at position \d+| in position \d+(-\d+)?")
_DECODERS: dict[str, Callable[..., Any]] = {"json": msgspec.json.decode, "msgpack": msgspec.msgpack.decode}
#: What decoders raise, for text that is not UTF-8 and for documents nested too deeply as well.
_FAILURES = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError, ValueError)


class Broken(Exception):
    """What was read is not what should stand there; the message says why."""


def decoded(body: bytes, kind: Any, form: Literal["json", "msgpack"] = "json") -> Any:
    """The value of a type that a document holds. Raises Broken.

    >>> decoded(b"[1, 2]", tuple[int, int])
    (1, 2)
    >>> decoded(b"[" * 100_000, list)
    Traceback (most recent call last):
    ...
    operators.core.decoding.Broken: nested too deeply
    """
    try:
        return _DECODERS[form](body, type=kind)
    except RecursionError as error:
        raise Broken("nested too deeply") from error
    except _FAILURES as error:
        raise Broken(_reason(error, body)) from error


def text_of(data: bytes | None) -> str:
    """Bytes as text. Raises Broken where they are not UTF-8, or where there are none."""
    try:
        return (data or b"").decode()
    except UnicodeDecodeError as error:
        raise Broken("not UTF-8") from error


def natural_of(text: str) -> int:
    """A number of a partition or an offset from its text. Raises Broken.

    >>> natural_of("12")
    12
    """
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Broken(f"not a number: {text[:40]!r}")
    return int(text)


def _reason(error: Exception, body: bytes) -> str:
    """The reason without the place in the document: documents that are broken in one way are one alarm."""
    return _PLACE.sub("", str(error)) if body else "empty"
