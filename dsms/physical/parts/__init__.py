"""Queries that several fragments run together: each runs a share of the keys, and links carry what changes hands."""
