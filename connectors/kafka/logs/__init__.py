"""The topics that this system itself writes and reads: results, dead letters, heartbeats, rates of shedding."""
