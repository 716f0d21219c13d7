"""Joins whose order changes while they run."""
