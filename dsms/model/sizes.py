"""Parses sizes in bytes from options, and formats them for people."""

from __future__ import annotations

import re

from operators.core.errors import UserError

_UNITS = {"": 1, "B": 1, "KB": 1000, "MB": 1000**2, "GB": 1000**3, "KIB": 1024, "MIB": 1024**2, "GIB": 1024**3}

#: The largest size that is accepted, more than any memory has, and the greatest number of characters of its number.
_LARGEST, _MAX_DIGITS = 2**60, 20


def format_size(size: float) -> str:
    """Formats a size with three significant digits, in the largest unit that gives at least 1.

    >>> format_size(12_345_678), format_size(900)
    ('12.3 MB', '900 bytes')
    """
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size:.3g} bytes"


def parse_size(text: str, name: str = "state_memory") -> int | None:
    """Parses a number of bytes; None for `none`. Raises UserError, which names the option `name`, for any other text.

    >>> parse_size("500 MB"), parse_size("2GiB"), parse_size("0"), parse_size("none")
    (500000000, 2147483648, 0, None)
    """
    if text.strip().lower() == "none":
        return None
    size = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text, re.ASCII)
    known = size is not None and len(size[1]) <= _MAX_DIGITS and size[2].upper() in _UNITS
    if size is None or not known or float(size[1]) * _UNITS[size[2].upper()] > _LARGEST:
        raise UserError(f'{name} needs a size, not "{text}"', hint="have: 500 MB, 2 GiB, a number of bytes, none")
    return int(float(size[1]) * _UNITS[size[2].upper()])
