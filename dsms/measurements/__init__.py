"""Measured work of operators, and what follows from it: rates, progress charts."""
