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
    """Raises this project's errors in place of redis-py's."""
    try:
        yield
    except redis.exceptions.OutOfMemoryError as error:
        raise full(doing) from error
    except redis.RedisError as error:
        raise failed(doing, str(error)) from error


def full(doing: str) -> ExternalError:
    """The error for a server without memory for a write. It is retryable, since it may be transient."""
    return ExternalError(f"{FULL} while {doing}", hint=_ROOM, retryable=True)


def failed(doing: str, reason: str) -> ExternalError:
    """The error for a call that failed. It is retryable, since it may be transient."""
    return ExternalError(f"redis failed while {doing}: {reason}", retryable=True)
