"""A long run under a steady load: memory and latency are sampled all the time, results are compared at the end."""
