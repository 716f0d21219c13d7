"""Tests that share a cluster: one executor starts for all of them, and ends with the last."""
