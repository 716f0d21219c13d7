"""How deep functions may call themselves: trees are as deep as the limits of statements allow, and the functions that
follow them take several calls for each level."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from operators.core.errors import DsmsError, UserError

#: Calls within each other. A query of the deepest nesting that is allowed by default takes about half of them.
CALLS: Final = 6_000
#: The stack of a thread that makes so many calls, through functions written in C.
STACK_BYTES: Final = 64 * 1024 * 1024


def allow_deep_calls() -> None:
    """Lets this process follow the deepest trees that statements may make. It never lowers what is allowed.

    >>> allow_deep_calls()
    >>> sys.getrecursionlimit() >= CALLS
    True
    """
    if sys.getrecursionlimit() < CALLS:
        sys.setrecursionlimit(CALLS)


def too_deep() -> UserError:
    """The error in place of a RecursionError."""
    return UserError(
        "the statement is nested too deeply", hint='the limits "statement_nesting" and "query_nesting" are set too high'
    )


@contextmanager
def bounded_calls(error: Callable[[], DsmsError] = too_deep) -> Iterator[None]:
    """Raises `error` in place of RecursionError.

    >>> def endless() -> None: endless()
    >>> with bounded_calls():
    ...     endless()
    Traceback (most recent call last):
    ...
    operators.core.errors.UserError: the statement is nested too deeply; the limits "statement_nesting" and \
"query_nesting" are set too high
    """
    try:
        yield
    except RecursionError:
        raise error() from None
