"""Sort keys: how rows of a partition or a result are ordered."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SortKey:
    """A column and its direction. Unless `nulls_first` says otherwise, NULL sorts as the greatest value, as in
    PostgreSQL: last ascending and first descending.

    >>> SortKey("price", descending=True).nulls_last
    False
    """

    column: str
    descending: bool = False
    nulls_first: bool | None = None

    @property
    def nulls_last(self) -> bool:
        """Whether NULLs come last."""
        return not self.descending if self.nulls_first is None else not self.nulls_first
