"""redis-py's errors in terms of our error tree; the only place that knows its classes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import redis

from operators.errors import ExternalError


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raises our errors in place of redis-py's: all of them may pass, so all are retryable."""
    try:
        yield
    except redis.RedisError as error:
        raise ExternalError(f"redis failed while {doing}: {error}", retryable=True) from error
