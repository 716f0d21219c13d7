"""Reads JSON text to Python values."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

import msgspec

#: The errors of reading text that is not JSON, or has a number whose exponent is too large for a Decimal.
NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, InvalidOperation)
#: Reads a text to a Python value, and numbers that are not integers to Decimals; raises one of `NOT_JSON`.
read_json = msgspec.json.Decoder(float_hook=Decimal).decode


def json_fault(error: Exception) -> str:
    """The reason of one of the errors `NOT_JSON`, in one line.

    >>> json_fault(RecursionError())
    'nested too deeply'
    """
    if isinstance(error, InvalidOperation):
        return "the exponent of a number has more than 18 digits"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error).partition("\n")[0]
