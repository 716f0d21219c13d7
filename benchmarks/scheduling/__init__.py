"""A simulation of one processor that serves queues by a policy."""
