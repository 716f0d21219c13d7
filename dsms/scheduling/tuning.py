"""Settings of an executor that can be changed at run time.

They are the size of its batches, its scheduling policy, and the limit of its state in Redis.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dsms.model.sizes import parse_size
from dsms.scheduling.registry import parse_policy
from operators.core.decoding import Malformed, decoded
from operators.core.errors import UserError

_MAX_RECORDS, _MIN_S, _MAX_S = 100_000_000, 0.01, 600.0
#: A longer pause would be taken for a stopped executor by those who watch its progress.
_LONGEST_INTERVAL_S = 60.0


class TunableSettings(msgspec.Struct, frozen=True):
    """The least and greatest number of records of a batch, its target duration, the scheduling policy, and the most
    bytes of state in Redis (None: no limit). A limit requires all workers to be on one host. `trigger_interval_seconds`
    is the least time from the beginning of one batch to that of the next, unless the first left records unread.
    """

    min_batch_records: int
    max_batch_records: int
    target_batch_seconds: float
    policy: str = "fifo"
    state_memory: int | None = None
    one_host: bool = True
    trigger_interval_seconds: float = 0.0

    def among(self, fragments: int) -> TunableSettings:
        """The settings for one of the `fragments` of an executor, with an equal part of the memory for state.

        >>> TunableSettings(10, 100, 1.0, state_memory=900).among(2).state_memory
        450
        """
        share = None if self.state_memory is None else self.state_memory // max(fragments, 1)
        return msgspec.structs.replace(self, state_memory=share)

    def check_hosts(self) -> None:
        """Raises UserError if state would be on a disk that not all workers can read."""
        if self.state_memory is not None and not self.one_host:
            raise UserError(
                "state_memory needs all workers on one host: other hosts cannot read the state on its disk",
                hint="start the executor with --master local[…]",
            )


class Tuning(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings changed by ALTER EXECUTOR; None keeps the value with which the executor was started."""

    min_batch_records: int | None = None
    max_batch_records: int | None = None
    target_batch_seconds: float | None = None
    policy: str | None = None
    #: Bytes, or a text such as '500 MB' or 'none'.
    state_memory: int | str | None = None
    trigger_interval_seconds: float | None = None

    def over(self, tunable: TunableSettings) -> TunableSettings:
        """`tunable` with these changes applied. Raises UserError if the result is invalid.

        >>> Tuning(max_batch_records=50).over(TunableSettings(10, 100, 1.0))
        TunableSettings(min_batch_records=10, max_batch_records=50, target_batch_seconds=1.0, ...)
        >>> Tuning(state_memory="1.5 MB").over(TunableSettings(10, 100, 1.0)).state_memory
        1500000
        >>> Tuning(max_batch_records=5).over(TunableSettings(10, 100, 1.0))
        Traceback (most recent call last):
        ...
        operators.core.errors.UserError: min_batch_records 10 is above max_batch_records 5
        """
        changed: dict[str, Any] = {
            name: value for name, value in msgspec.structs.asdict(self).items() if value is not None
        }
        if self.state_memory is not None:
            changed["state_memory"] = parse_size(str(self.state_memory))
        tuned = msgspec.structs.replace(tunable, **changed)
        if tuned.min_batch_records > tuned.max_batch_records:
            raise UserError(
                f"min_batch_records {tuned.min_batch_records} is above max_batch_records {tuned.max_batch_records}"
            )
        if tuned.min_batch_records < 1 or tuned.max_batch_records > _MAX_RECORDS:
            raise UserError(f"a batch must have 1 to {_MAX_RECORDS} records")
        if not _MIN_S <= tuned.target_batch_seconds <= _MAX_S:
            raise UserError(f"target_batch_seconds must be between {_MIN_S:g} and {_MAX_S:g}")
        if not 0 <= tuned.trigger_interval_seconds <= _LONGEST_INTERVAL_S:
            raise UserError(f"trigger_interval_seconds must be between 0 and {_LONGEST_INTERVAL_S:g}")
        tuned.check_hosts()
        parse_policy(tuned.policy)
        return tuned


_NUMBERS_OF_SECONDS = ("target_batch_seconds", "trigger_interval_seconds")
#: The options whose values are numbers.
BATCH_OPTIONS = ("min_batch_records", "max_batch_records", *_NUMBERS_OF_SECONDS)


def read_option(name: str, text: str) -> str | int | float:
    """The value of an option from its text in a statement. Raises UserError if it is not a number but must be one.

    >>> read_option("max_batch_records", "500"), read_option("policy", "chain")
    (500, 'chain')
    """
    if name not in BATCH_OPTIONS:
        return text
    try:
        return float(text) if name in _NUMBERS_OF_SECONDS else int(text)
    except ValueError:
        raise UserError(f'{name} needs a number, not "{text}"') from None


def read_tuning(body: bytes | None) -> Tuning:
    """The stored settings; an empty Tuning if none are stored or they cannot be decoded.

    >>> read_tuning(b"?") == read_tuning(None) == Tuning()
    True
    """
    try:
        tuning: Tuning = decoded(body, Tuning) if body else Tuning()
        return tuning
    except Malformed:
        return Tuning()
