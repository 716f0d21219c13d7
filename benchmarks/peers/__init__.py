"""Other systems with the same queries, each in a separate environment."""
