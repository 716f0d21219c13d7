"""Which executor runs which fragment, and how many executors there should be. All decisions are pure functions."""
