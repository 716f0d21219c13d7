"""Benchmarks: `python -m benchmarks` measures the slice from topic to topic."""
