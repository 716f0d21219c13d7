"""Which queue a fragment serves next and how much of it, by a policy. All decisions are pure functions."""
