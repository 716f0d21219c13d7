"""What one one-time statement may use, and the errors when it wants more."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from dsms.model.limits import SETTING, Limits
from operators.core.errors import UserError


class OutOfBounds(UserError):
    """A one-time statement needs more memory, or gives more, than it may."""


class TookTooLong(UserError):
    """A one-time statement was ended after the longest time that it may take."""


class TooManySelects(UserError):
    """As many one-time statements are answered, and wait, as may."""


class Cancelled(UserError):
    """Nobody waits for the answer any more."""


def out_of_bounds(limit: str, what: str) -> OutOfBounds:
    """The error of a limit.

    >>> str(out_of_bounds("select_rows", "the answer has more than 5 rows"))
    'the answer has more than 5 rows; the limit "select_rows" is set by DSMS_LIMITS'
    """
    return OutOfBounds(what, hint=_set_by(limit))


def _set_by(limit: str) -> str:
    return f'the limit "{limit}" is set by {SETTING}'


@dataclass(frozen=True)
class Budget:
    """The limits of one statement, the time of `time.monotonic()` up to which it may run, and whether anybody still
    waits for it. Whatever takes long checks it now and then."""

    limits: Limits
    until: float
    cancelled: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def of(cls, limits: Limits, cancelled: threading.Event | None = None) -> Budget:
        """The budget of a statement that begins now."""
        return cls(limits, time.monotonic() + limits.select_seconds, cancelled or threading.Event())

    def check(self) -> None:
        """Raises TookTooLong when the time is up, and Cancelled when nobody waits."""
        if self.cancelled.is_set():
            raise Cancelled("the client has gone away")
        if time.monotonic() > self.until:
            seconds = self.limits.select_seconds
            raise TookTooLong(f"the statement was ended after {seconds} s", hint=_set_by("select_seconds"))

    def check_answer(self, size: int) -> None:
        """Raises OutOfBounds for rows that are too large to be an answer."""
        if size > self.limits.select_result_mb * 1024 * 1024:
            raise out_of_bounds("select_result_mb", f"the answer has more than {self.limits.select_result_mb} MB")

    def check_relation(self, name: str, size: int) -> None:
        """Raises OutOfBounds for a relation whose encoded rows have more bytes than may be read, and as `check`."""
        self.check()
        if size > self.limits.relation_mb * 1024 * 1024:
            raise out_of_bounds("relation_mb", f'"{name}" has more than {self.limits.relation_mb} MB to read')
