"""Turns errors of sqlglot into errors about the statement."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from traceback import walk_tb

import structlog
from sqlglot.errors import SqlglotError

from operators.core.call_depth import bounded_calls
from operators.core.errors import SqlError, UserError

log = structlog.get_logger()


@contextmanager
def readable_sqlglot_errors() -> Iterator[None]:
    """Raises UserError for a statement that sqlglot cannot parse or write, or that is nested too deeply.

    >>> with readable_sqlglot_errors():
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
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if not _raised_by_sqlglot(error):
            raise
        log.warning("sqlglot failed on a statement", exc_info=True)
        raise SqlError("the statement cannot be understood: a part of it is not allowed where it is written") from error


def _raised_by_sqlglot(error: BaseException) -> bool:
    """Whether sqlglot's own code raised an error: sqlglot relies on arguments that its parser does not require, and its
    messages cannot show this system's own nodes."""
    *_, (frame, _) = walk_tb(error.__traceback__)
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == "sqlglot"
