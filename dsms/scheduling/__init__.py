"""Decides by a policy which queue a fragment serves next, and how much of it. All decisions are pure functions."""
