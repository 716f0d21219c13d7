"""Aggregates written in SQL that every catalog has."""

from dsms.sql.library.standard import STANDARD

#: The texts of the definitions.
TEXTS = (STANDARD,)

__all__ = ["TEXTS"]
