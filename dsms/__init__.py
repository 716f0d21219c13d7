"""A distributed data stream management system for Kafka.

Polars calls our functions from its own threads, and these functions recurse deeply into nested documents. The variable
set here gives Polars' threads the same stack size as our own. Polars reads it on import, so it is set first; child
processes inherit it.
"""

import os

os.environ.setdefault("RUST_MIN_STACK", str(64 * 1024 * 1024))
