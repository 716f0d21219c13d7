"""Joins that are ordered anew while they run."""
