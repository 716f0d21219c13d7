"""Turns lines into records to send."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from connectors.formats.record_codec import RowEncoder
from connectors.kafka.records.publish import Outgoing
from operators.core.delta import BEGINNING, is_instant
from operators.core.errors import UserError

OPS = ("+", "u", "-")


class Lines(Protocol):
    """Turns lines into records."""

    def outgoing(self, line: str) -> Outgoing:
        """The record of a line. Raises UserError if the line is invalid."""
        ...


@dataclass(frozen=True, slots=True)
class WholeLines:
    """Uses each line unchanged as the value of a record; for formats that only sources have, such as CSV.

    >>> WholeLines().outgoing("1,x")
    Outgoing(key=None, value=b'1,x', op=None, ts=None)
    """

    def outgoing(self, line: str) -> Outgoing:
        """The record of a line."""
        return Outgoing(key=None, value=line.rstrip("\r\n").encode(), op=None, ts=None)


@dataclass(frozen=True, slots=True)
class LineFormat:
    """Turns a line of JSON into a record.

    The fields `ts` and `op` become headers unless they are columns of the source. A removal (`-`) that has only the
    fields of the key is sent as a tombstone.
    """

    encoder: RowEncoder
    key: Sequence[str] = ()
    columns: frozenset[str] = frozenset()

    def outgoing(self, line: str) -> Outgoing:
        """The record of a line. Raises UserError if the line is invalid.

        >>> from connectors.formats.record_codec import JsonCodec
        >>> LineFormat(JsonCodec(), key=["a"]).outgoing('{"a": 1, "b": 2, "ts": 5}')
        Outgoing(key=b'{"a":1}', value=b'{"a":1,"b":2}', op=None, ts=5)
        """
        row = _object(line)
        ts = _instant(self._header(row, "ts"))
        op = _op(self._header(row, "op"))
        missing = [column for column in self.key if column not in row]
        if missing:
            raise UserError(f'key column "{missing[0]}" is missing')
        key_row = {column: row[column] for column in self.key}
        tombstone = op == "-" and bool(self.key) and row == key_row
        return Outgoing(
            key=self.encoder.encode(key_row, key=True) if self.key else None,
            value=None if tombstone else self.encoder.encode(row, key=False),
            op=op,
            ts=ts,
        )

    def _header(self, row: dict[str, Any], name: str) -> Any:
        return None if name in self.columns else row.pop(name, None)


def numbered(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers from 1.

    >>> list(numbered(["a", " ", "b"]))
    [(1, 'a'), (3, 'b')]
    """
    return ((number, line) for number, line in enumerate(lines, 1) if line.strip())


def _object(line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise UserError(f"not JSON: {error}") from error
    if not isinstance(row, dict):
        raise UserError(f"not a JSON object: {line.strip()[:80]}")
    return row


def _instant(value: Any) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise UserError(f'field "ts" is {json.dumps(value)}', hint="an instant is a whole number")
    if value is not None and not is_instant(value):
        raise UserError(f'field "ts" is {value}', hint=f"instants lie within ±{-BEGINNING - 1}")
    return value


def _op(value: Any) -> str | None:
    if value is None or value == "+":
        return None
    if value not in OPS:
        raise UserError(f'field "op" is {json.dumps(value)}', hint=f"have: {', '.join(OPS)}")
    return str(value)
