"""KeyTrace: a trace by key in which the elements of a key have no order, so all runs that are due merge at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from operators.core.run import Run
from operators.state.cascade import cascade
from operators.state.trace import Trace

#: The number of keys is estimated from this many hashes.
_MIN_HASHES = 1024


@dataclass(frozen=True)
class KeyTrace(Trace):
    """A trace by key whose runs are sorted only by the key's hash.

    >>> from operators.core.delta import Delta
    >>> trace = KeyTrace("key", ("a",))
    >>> for at in range(8):
    ...     trace = trace.append(Delta.of([("+", {"a": at}, at)]), at + 1)
    >>> [run.height for run in trace.runs]
    [8]
    """

    def distinct_keys(self) -> float:
        """Estimates the number of different keys in the longest run from its least hashes, as hashes are evenly
        distributed.

        >>> from operators.core.delta import Delta
        >>> rows = Delta.of([("+", {"a": at % 50_000}, at) for at in range(100_000)])
        >>> 45_000 < KeyTrace("key", ("a",)).append(rows, 0).distinct_keys() < 55_000
        True
        """
        if not self.runs:
            return 0.0
        hashes = max(self.runs, key=lambda run: run.height).sorted_column
        least = hashes[:_MIN_HASHES]
        found = float(np.count_nonzero(least[1:] != least[:-1]) + 1)
        return found if len(least) == len(hashes) else found * 2.0**64 / (float(least[-1]) + 1)

    def _merged_stack(self, runs: tuple[Run, ...], frontier: int) -> tuple[Run, ...]:
        return cascade(runs, partial(self._merge_all, frontier))
