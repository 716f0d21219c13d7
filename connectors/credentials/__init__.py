"""Secrets by reference, TLS of our own clients, and masking of secrets in texts."""
