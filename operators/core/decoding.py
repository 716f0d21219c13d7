"""Decoding of untrusted documents: any bytes give either a value or `Malformed`, never another error."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec

#: A signed 64-bit integer, such as an instant.
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
#: An offset, a count or a partition number.
Natural = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_LOCATION = re.compile(r" \(byte \d+\)|, at position \d+| in position \d+(-\d+)?")
_DECODERS: dict[str, Callable[..., Any]] = {"json": msgspec.json.decode, "msgpack": msgspec.msgpack.decode}
#: The errors that decoders raise, also for text that is not UTF-8 and for documents nested too deeply.
_FAILURES = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError, ValueError)


class Malformed(Exception):
    """The data is not in the expected form; the message says why."""


def decoded(body: bytes, kind: Any, form: Literal["json", "msgpack"] = "json") -> Any:
    """The value of type `kind` in a document. Raises Malformed if the document is not such a value.

    >>> decoded(b"[1, 2]", tuple[int, int])
    (1, 2)
    >>> decoded(b"[" * 100_000, list)
    Traceback (most recent call last):
    ...
    operators.core.decoding.Malformed: nested too deeply
    """
    try:
        return _DECODERS[form](body, type=kind)
    except RecursionError as error:
        raise Malformed("nested too deeply") from error
    except _FAILURES as error:
        raise Malformed(_reason(error, body)) from error


def text_of(data: bytes) -> str:
    """Bytes as text. Raises Malformed if they are not UTF-8.

    >>> text_of(b"a/7")
    'a/7'
    """
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Malformed("not UTF-8") from error


def natural_of(text: str) -> int:
    """A partition number or an offset from its text. Raises Malformed if it is not a number of up to 18 digits.

    >>> natural_of("12")
    12
    """
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Malformed(f"not a number: {text[:40]!r}")
    return int(text)


def _reason(error: Exception, body: bytes) -> str:
    """The reason without the location in the document: all documents broken in the same way raise one alarm."""
    return _LOCATION.sub("", str(error)) if body else "empty"
