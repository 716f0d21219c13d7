"""Binds FROM and WHERE: relations by name, joins, table functions, recursion, row patterns."""
