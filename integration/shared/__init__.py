"""Tests that share a cluster: one executor runs for all of them."""
