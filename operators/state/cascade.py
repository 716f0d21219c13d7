"""Cascade: all runs that are due merge at once, which copies an element half as often as merging in pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from operators.core.run import Run
from operators.kernels.merging import MERGE_RATIO


def cascade(runs: Sequence[Run], merge: Callable[[Sequence[Run]], Run]) -> tuple[Run, ...]:
    """Runs, oldest first, each at least `MERGE_RATIO` times as large as the next: an element is copied O(log n) times.

    >>> import polars as pl
    >>> runs = [Run(pl.DataFrame({"a": [1] * height}), "time") for height in (9, 2, 1, 1)]
    >>> [run.height for run in cascade(runs, lambda due: Run(pl.concat([run.frame for run in due]), "time"))]
    [9, 4]
    """
    filled = tuple(run for run in runs if run.height)
    many = runs_due([run.height for run in filled])
    if many < 2:
        return filled
    merged = merge(filled[-many:])
    return (*filled[:-many], merged) if merged.height else filled[:-many]


def runs_due(heights: Sequence[int]) -> int:
    """How many of the newest runs merge: as many as would if they merged in pairs and nothing cancelled.

    >>> runs_due([8, 4, 1]), runs_due([9, 2, 1, 1]), runs_due([4, 1, 1]), runs_due([])
    (1, 3, 2, 0)
    """
    many, height = min(1, len(heights)), sum(heights[-1:])
    while many < len(heights) and heights[-many - 1] < MERGE_RATIO * height:
        height += heights[-many - 1]
        many += 1
    return many
