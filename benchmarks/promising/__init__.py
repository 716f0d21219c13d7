"""The experiments of the paper on promising tuples: `python -m benchmarks.promising`."""
