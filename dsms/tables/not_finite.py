"""The places of numbers in an answer that are not finite. JSON has no such numbers and shows them as NULL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

#: A row and a column, from 0 on, and the number there: NaN, or an infinity.
NotFinite = tuple[int, int, float]
_TYPES = ("DOUBLE", "FLOAT")


def float_columns(types: Sequence[str]) -> list[int]:
    """The columns of floating-point numbers, by DuckDB's names of the types of all columns.

    >>> float_columns(["BIGINT", "DOUBLE", "DOUBLE[]"])
    [1]
    """
    return [at for at, type_ in enumerate(types) if type_ in _TYPES]


def not_finite(rows: Sequence[Sequence[object]], columns: Sequence[int], first: int = 0) -> Iterator[NotFinite]:
    """The places in rows whose numbers begin with `first`.

    >>> list(not_finite([(1, 1.5), (2, float("-inf"))], [1]))
    [(1, 1, -inf)]
    """
    for number, row in enumerate(rows, first) if columns else ():
        for at in columns:
            value = row[at]
            if isinstance(value, float) and value - value != 0.0:
                yield number, at, value
