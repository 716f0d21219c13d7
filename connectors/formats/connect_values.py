"""Converts values from the notation of Kafka Connect and Debezium to the one that the checks of columns take."""

from __future__ import annotations

from decimal import Decimal

from connectors.formats.base import ValueMismatch
from connectors.formats.values import Check

#: The most bytes of an unscaled decimal, and the largest scale, that are read. Every DECIMAL is smaller.
_MAX_BYTES = 1000


def iso_text(check: Check, value: object) -> object:
    """Checks the text of a timestamp or date in UTC. Debezium's dates end in `Z`, unlike those of SQL.

    >>> from connectors.formats.values import check_type
    >>> import pyarrow as pa
    >>> iso_text(check_type(pa.date32()), "1970-01-02Z")
    1
    """
    return check(without_zone(value))


def without_zone(value: object) -> object:
    """A date without the `Z` that Debezium appends; any other value unchanged.

    >>> without_zone("1970-01-02Z"), without_zone("1970-01-02T00:00:00Z")
    ('1970-01-02', '1970-01-02T00:00:00Z')
    """
    day = isinstance(value, str) and len(value) == len("1970-01-02Z") and value.endswith("Z")
    return value[:-1] if day and isinstance(value, str) else value


def unscaled(value: bytes, scale: int, name: str) -> Decimal:
    """The decimal with this unscaled value, in big-endian two's complement, and scale.

    Raises ValueMismatch, with the type's `name`, if no DECIMAL is that large.

    >>> unscaled(bytes([4, 210]), 2, "DECIMAL(9, 2)")
    Decimal('12.34')
    """
    if len(value) > _MAX_BYTES or abs(scale) > _MAX_BYTES:
        raise ValueMismatch(f": {len(value)} bytes with scale {scale} are out of range for {name}")
    return Decimal(f"{int.from_bytes(value, 'big', signed=True)}E{-scale}")
