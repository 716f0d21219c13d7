"""Measures the work of operators, and derives rates and progress charts from it."""
