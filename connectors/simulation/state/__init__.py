"""A simulated server of state in place of Redis: calls take virtual time, and fail as a plan of faults says."""
