"""The topics that this system writes and reads: results, dead letters, heartbeats, rates of shedding."""
