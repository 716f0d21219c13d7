"""Does the cost of a change depend on the change alone? `python -m benchmarks.delta_law`."""
