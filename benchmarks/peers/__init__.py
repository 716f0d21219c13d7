"""Other systems on the same jobs, each in an environment of its own."""
