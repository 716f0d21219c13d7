"""Reads Confluent's wire format: a zero byte, four bytes with the id of the schema in a registry, the record."""

from __future__ import annotations

from connectors.formats.avro_buffer import WIRE_HEADER_BYTES
from connectors.formats.base import NotARow


def framing_fault(value: bytes) -> str:
    """Why a value is not in Confluent's wire format; "" if its first bytes are valid.

    >>> framing_fault(b"{}"), framing_fault(bytes([0, 0, 0, 0, 7]))
    ("not in Confluent's wire format: only 2 bytes", '')
    """
    if len(value) < WIRE_HEADER_BYTES:
        return f"not in Confluent's wire format: only {len(value)} bytes"
    return f"not in Confluent's wire format: the first byte is {value[0]} instead of 0" if value[0] else ""


def schema_id(value: bytes) -> int:
    """The schema id of a value that has no framing fault.

    >>> schema_id(bytes([0, 0, 0, 1, 2, 99]))
    258
    """
    return int.from_bytes(value[1:WIRE_HEADER_BYTES], "big")


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Reads a signed number in zigzag varint encoding, as Protobuf and Avro write it, at byte `at`.

    Returns the number and the index of the byte after it. Raises NotARow if the number does not end within ten bytes.

    >>> varint(bytes([3, 128, 1]), 0), varint(bytes([3, 128, 1]), 1)
    ((-2, 1), (64, 3))
    """
    number = shift = 0
    for index in range(at, min(at + 10, len(data))):
        number |= (data[index] & 127) << shift
        if data[index] < 128:
            return (number >> 1) ^ -(number & 1), index + 1
        shift += 7
    raise NotARow(f"the number at byte {at} does not end within ten bytes")
