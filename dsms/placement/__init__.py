"""Decides which executor runs which fragment, and how many executors are needed. All decisions are pure functions."""
