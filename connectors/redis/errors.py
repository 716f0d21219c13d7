"""redis-py's errors in terms of our error tree; the only place that knows its classes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import redis

from operators.core.errors import ExternalError

FULL = "redis is full"
_ROOM = "raise its maxmemory, or let less state lie there: ALTER EXECUTOR … SET (state_memory = '500 MB')"


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raises our errors in place of redis-py's: all of them may pass, so all are retryable."""
    try:
        yield
    except redis.exceptions.OutOfMemoryError as error:
        raise ExternalError(f"{FULL} while {doing}", hint=_ROOM, retryable=True) from error
    except redis.RedisError as error:
        raise ExternalError(f"redis failed while {doing}: {error}", retryable=True) from error
