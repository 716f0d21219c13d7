"""Aggregates written in SQL that every catalog has."""

from dsms.sql.library import stream_mining
from dsms.sql.library.standard import STANDARD

#: The texts of the definitions.
TEXTS = (STANDARD, *stream_mining.TEXTS)

__all__ = ["TEXTS"]
