"""Aggregates written in SQL that every catalog has."""

from dsms.sql.aggregate_library import stream_mining
from dsms.sql.aggregate_library.standard import STANDARD

#: The texts of the definitions.
TEXTS = (STANDARD, *stream_mining.TEXTS)

__all__ = ["TEXTS"]
