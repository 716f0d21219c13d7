"""Translates redis-py's errors into this project's errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import redis

from operators.core.errors import ExternalError

FULL = "redis is full"
_ROOM = "raise its maxmemory, or keep less state in it: ALTER EXECUTOR … SET (state_memory = '500 MB')"


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raises this project's errors in place of redis-py's. All are retryable, since all may be transient."""
    try:
        yield
    except redis.exceptions.OutOfMemoryError as error:
        raise ExternalError(f"{FULL} while {doing}", hint=_ROOM, retryable=True) from error
    except redis.RedisError as error:
        raise ExternalError(f"redis failed while {doing}: {error}", retryable=True) from error
