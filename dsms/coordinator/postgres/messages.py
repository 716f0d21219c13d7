"""Writes the server's messages of the protocol as bytes, and reads those of a client (PostgreSQL's documentation,
"Message Formats")."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: The codes of requests that a client sends before it authenticates.
SSL_REQUEST, GSS_REQUEST, CANCEL_REQUEST, VERSION_3 = 80877103, 80877104, 80877102, 196608
#: The states of a session for ReadyForQuery.
IDLE, IN_TRANSACTION, FAILED = b"I", b"T", b"E"


def message(kind: bytes, content: bytes = b"") -> bytes:
    """A message with its length.

    >>> message(b"Z", b"I")
    b'Z\\x00\\x00\\x00\\x05I'
    """
    return kind + struct.pack("!i", len(content) + 4) + content


def text(value: str) -> bytes:
    """A text with a zero byte at its end."""
    return value.replace("\0", "").encode() + b"\0"


@dataclass(frozen=True)
class Field:
    """A column of an answer: its name, the OID of its type, its size (-1: it varies), the modifier of the type, and
    whether its values are binary."""

    name: str
    oid: int
    size: int
    modifier: int = -1
    binary: bool = False


def row_description(fields: Sequence[Field]) -> bytes:
    """The description of the columns of the rows that follow."""
    parts = [
        text(field.name) + struct.pack("!ihihih", 0, 0, field.oid, field.size, field.modifier, int(field.binary))
        for field in fields
    ]
    return message(b"T", struct.pack("!h", len(parts)) + b"".join(parts))


def data_row(values: Sequence[bytes | None]) -> bytes:
    """A row of values, None for NULL.

    >>> data_row([b"7", None])
    b'D\\x00\\x00\\x00\\x0f\\x00\\x02\\x00\\x00\\x00\\x017\\xff\\xff\\xff\\xff'
    """
    parts = [struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value for value in values]
    return message(b"D", struct.pack("!h", len(values)) + b"".join(parts))


def failure(code: str, reason: str, hint: str | None = None, position: int | None = None) -> bytes:
    """An error with its SQLSTATE. `position` is the location in the query, in characters from 1 on."""
    return _report(b"E", "ERROR", {"C": code, "M": reason, "H": hint, "P": None if position is None else str(position)})


def fatal(code: str, reason: str, hint: str | None = None) -> bytes:
    """An error that ends the session."""
    return _report(b"E", "FATAL", {"C": code, "M": reason, "H": hint})


def copy_out(columns: int) -> bytes:
    """Says that lines of COPY follow, with this number of columns as text."""
    return message(b"H", b"\0" + columns.to_bytes(2, "big") + b"\0\0" * columns)


def notice(reason: str) -> bytes:
    """A notice that accompanies a result."""
    return _report(b"N", "NOTICE", {"C": "00000", "M": reason})


def _report(kind: bytes, severity: str, fields: Mapping[str, str | None]) -> bytes:
    given = {"S": severity, "V": severity, **fields}
    content = b"".join(name.encode() + text(value) for name, value in given.items() if value)
    return message(kind, content + b"\0")


class Reader:
    """Reads the content of a message from left to right. Raises Malformed if it is too short."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def number(self, size: int) -> int:
        """A signed number of `size` bytes."""
        return int.from_bytes(self.taken(size), "big", signed=True)

    def numbers(self, size: int) -> list[int]:
        """A list of numbers, preceded by its length in two bytes."""
        return [self.number(size) for _ in range(self.number(2))]

    def taken(self, size: int) -> bytes:
        """The next `size` bytes."""
        end = self._at + size
        if size < 0 or end > len(self._content):
            raise Malformed("a message is shorter than its length field says")
        part, self._at = self._content[self._at : end], end
        return part

    def text(self) -> str:
        """A text up to its zero byte."""
        end = self._content.find(b"\0", self._at)
        if end < 0:
            raise Malformed("a text has no end")
        part, self._at = self._content[self._at : end], end + 1
        try:
            return part.decode()
        except UnicodeDecodeError as error:
            raise Malformed("a text is not UTF-8") from error

    def value(self) -> bytes | None:
        """A value, preceded by its length; None for NULL."""
        size = self.number(4)
        return None if size == -1 else self.taken(size)

    @property
    def more(self) -> bool:
        """Whether anything is left."""
        return self._at < len(self._content)


class Malformed(Exception):
    """A client violates the protocol."""
