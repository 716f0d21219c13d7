"""Chaos: a random, seeded sequence of failures, after which every result must be correct."""
