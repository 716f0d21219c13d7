"""The limit of nested calls. The limits of statements bound the depth of syntax trees; a recursive function over a tree
makes several calls for each level."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from operators.core.errors import DsmsError, UserError

#: The greatest number of nested calls. A query with the deepest nesting allowed by default needs about half of it.
CALLS: Final = 6_000
#: The size of the stack that a thread needs for CALLS nested calls that pass through functions written in C.
STACK_BYTES: Final = 64 * 1024 * 1024


def allow_deep_calls() -> None:
    """Lets this process recurse through the deepest trees that statements may have. Never lowers the current limit.

    >>> allow_deep_calls()
    >>> sys.getrecursionlimit() >= CALLS
    True
    """
    if sys.getrecursionlimit() < CALLS:
        sys.setrecursionlimit(CALLS)


def too_deep() -> UserError:
    """The error that replaces a RecursionError."""
    return UserError(
        "the statement is nested too deeply",
        hint='simplify it; the limits "statement_nesting" and "query_nesting" are too high for this process',
    )


@contextmanager
def bounded_calls(error: Callable[[], DsmsError] = too_deep) -> Iterator[None]:
    """Raises `error` in place of RecursionError.

    >>> def endless() -> None: endless()
    >>> with bounded_calls():
    ...     endless()
    Traceback (most recent call last):
    ...
    operators.core.errors.UserError: the statement is nested too deeply; simplify it; the limits \
"statement_nesting" and "query_nesting" are too high for this process
    """
    try:
        yield
    except RecursionError:
        raise error() from None
