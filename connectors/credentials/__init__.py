"""Secrets by reference, and TLS of our own clients."""
