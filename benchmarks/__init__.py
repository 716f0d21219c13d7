"""Benchmarks; `python -m benchmarks` measures two stateless queries from topic to topic."""
