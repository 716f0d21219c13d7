"""A long run under a steady load: results compared at the end, memory and latency followed all the time."""
