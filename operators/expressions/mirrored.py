"""Comparisons seen from the other side: what `x < y` says of y."""

from typing import Final

ORDERS: Final = {
    "less": "greater", "less_or_equal": "greater_or_equal", "greater": "less", "greater_or_equal": "less_or_equal",
}  # fmt: skip
#: Those that hold on an unbroken range of values.
MIRRORED: Final = {**ORDERS, "equal": "equal"}
