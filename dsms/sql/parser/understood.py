"""Errors of the libraries below, as errors of the statement."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlglot.errors import SqlglotError

from operators.core.errors import SqlError, UserError
from operators.core.recursion import bounded_calls

#: How sqlglot's generator begins when a message quotes a part that only our dialect can write.
_NO_TEXT = "Unsupported expression type"


@contextmanager
def understood() -> Iterator[None]:
    """Raises UserError for a statement that sqlglot cannot parse or write, or that is nested too deeply.

    >>> with understood():
    ...     raise SqlglotError("Expecting ). Line 1")
    Traceback (most recent call last):
    ...
    operators.core.errors.SqlError: line 1, column 1: the statement cannot be understood: Expecting ). Line 1
    """
    try:
        with bounded_calls():
            yield
    except UserError:
        raise
    except SqlglotError as error:
        raise SqlError(f"the statement cannot be understood: {str(error).splitlines()[0]}") from error
    except ValueError as error:
        if not str(error).startswith(_NO_TEXT):
            raise
        raise SqlError("the statement cannot be understood: a part of it has no place there") from error
