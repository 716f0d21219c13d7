"""Binds GROUP BY, calls of aggregates, and definitions of aggregates."""
