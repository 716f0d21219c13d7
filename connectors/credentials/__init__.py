"""References to secrets, TLS settings of the project's clients, and masking of secrets in texts."""
