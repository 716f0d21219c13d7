"""The delta law: the cost of a change depends on its size alone, see `python -m benchmarks.delta_law`."""
