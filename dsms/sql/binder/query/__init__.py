"""Binds a query as a whole: SELECT, its list, set operations, ORDER BY and LIMIT."""
