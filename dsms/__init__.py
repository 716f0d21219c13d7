"""A distributed data stream management system for Kafka.

Threads of Polars call functions of ours that follow deep documents, so they get the stacks that our own threads have.
Polars reads this when it is imported, hence before all else; processes that are started from here inherit it.
"""

import os

os.environ.setdefault("RUST_MIN_STACK", str(64 * 1024 * 1024))
