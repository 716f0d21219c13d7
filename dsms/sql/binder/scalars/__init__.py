"""Binds scalar expressions: calls of functions, conditions, comparisons with Now, times."""
