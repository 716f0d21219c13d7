"""The limits of a one-time statement, and the errors when it exceeds them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from dsms.model.limits import SETTING, Limits
from operators.core.errors import UserError


class LimitExceeded(UserError):
    """A one-time statement exceeds a limit on its memory, its input or its result."""


class TookTooLong(UserError):
    """A one-time statement was ended because it exceeded its time limit."""


class TooManySelects(UserError):
    """The limits on running and on waiting one-time statements are reached."""


class Cancelled(UserError):
    """No client waits for the answer any more."""


def limit_exceeded(limit: str, what: str) -> LimitExceeded:
    """The error for an exceeded limit.

    >>> str(limit_exceeded("select_rows", "the answer has more than 5 rows"))
    'the answer has more than 5 rows; the limit "select_rows" is set by DSMS_LIMITS'
    """
    return LimitExceeded(what, hint=_set_by(limit))


def _set_by(limit: str) -> str:
    return f'the limit "{limit}" is set by {SETTING}'


@dataclass
class Budget:
    """The limits of one statement, its deadline as a time of `time.monotonic()`, and an event that is set when no
    client waits for it any more. Long computations call `check` now and then."""

    limits: Limits
    deadline: float
    cancelled: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def of(cls, limits: Limits, cancelled: threading.Event | None = None) -> Budget:
        """The budget of a statement that begins now."""
        return cls(limits, time.monotonic() + limits.select_seconds, cancelled or threading.Event())

    def check(self) -> None:
        """Raises TookTooLong when the time is up, and Cancelled when no client waits."""
        if self.cancelled.is_set():
            raise Cancelled("the client has disconnected")
        if time.monotonic() > self.deadline:
            seconds = self.limits.select_seconds
            raise TookTooLong(f"the statement was ended after {seconds} s", hint=_set_by("select_seconds"))

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """The time of the block does not count; in it, `check` raises only Cancelled."""
        began, deadline = time.monotonic(), self.deadline
        self.deadline = float("inf")
        try:
            yield
        finally:
            self.deadline = deadline + time.monotonic() - began

    def check_answer(self, size: int) -> None:
        """Raises LimitExceeded if the rows of an answer have too many bytes."""
        if size > self.limits.select_result_mb * 1024 * 1024:
            raise limit_exceeded("select_result_mb", f"the answer has more than {self.limits.select_result_mb} MB")

    def check_relation(self, name: str, size: int) -> None:
        """Raises LimitExceeded if the encoded rows of a relation have too many bytes, and the errors of `check`."""
        self.check()
        if size > self.limits.relation_mb * 1024 * 1024:
            raise limit_exceeded("relation_mb", f'"{name}" has more than {self.limits.relation_mb} MB to read')
