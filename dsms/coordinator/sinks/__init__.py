"""Sinks of the catalog: which targets are allowed, and the processes that write to them."""
