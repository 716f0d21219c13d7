"""KeyTrace: a trace by key in which elements of a key have no order, so that all runs that are due merge at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from operators.core.run import Run
from operators.state.cascade import cascade
from operators.state.trace import Trace


@dataclass(frozen=True)
class KeyTrace(Trace):
    """A trace by key whose runs are sorted by nothing but the key's hash.

    >>> from operators.core.delta import Delta
    >>> trace = KeyTrace("key", ("a",))
    >>> for at in range(8):
    ...     trace = trace.append(Delta.of([("+", {"a": at}, at)]), at + 1)
    >>> [run.height for run in trace.runs]
    [8]
    """

    def _merged_stack(self, runs: tuple[Run, ...], frontier: int) -> tuple[Run, ...]:
        return cascade(runs, partial(self._merge_all, frontier))
