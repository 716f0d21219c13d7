"""Other systems on the same queries, each in an environment of its own."""
