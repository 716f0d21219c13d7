"""Cascade: merges the runs of a stack. All runs that are due merge together; a large merge is spread over many steps.

A merge of many rows works through the runs by ranges of their sorted column, one or a few ranges in each step, and
writes a run for each range. Between two steps, the merged rows are only in these new runs. So every row is in one run,
and older rows precede younger ones with an equal value of the sorted column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from operators.core.run import RowTest, Run
from operators.kernels.merging import MERGE_RATIO

Merge = Callable[[Sequence[Run]], Run]
#: The number of rows in a range. A merge of more than twice this number is spread over several steps.
MERGE_RANGE_ROWS = 1 << 19
#: For each row that a step adds, it merges about this many rows.
MERGE_ROWS_PER_ADDED_ROW = 8


def cascade(runs: Sequence[Run], merge: Merge) -> tuple[Run, ...]:
    """Returns the runs, oldest first, after the merges that follow the addition of the last run. Each level of runs is
    at least `MERGE_RATIO` times as large as the next level, so an element is copied O(log n) times. A level has one
    run, or several that follow each other in their sorted column. `merge` gets runs with overlapping values, oldest
    first.

    >>> import polars as pl
    >>> runs = [Run(pl.DataFrame({"__from": [1] * height}), "time") for height in (9, 2, 1, 1)]
    >>> [run.height for run in cascade(runs, lambda due: Run(pl.concat([run.frame for run in due]), "time"))]
    [9, 4]
    """
    filled = [run for run in runs if run.height]
    if not filled or not runs[-1].height:  # nothing was added
        return tuple(filled)
    pieces = max(1, -(-MERGE_ROWS_PER_ADDED_ROW * runs[-1].height // MERGE_RANGE_ROWS))
    begin, end = _joining(filled)
    if begin == end:
        return tuple(_merged(filled, merge, pieces))
    *elder, target = _levels(filled[:begin])  # a merge is in progress
    advanced = _advanced(target, filled[begin:end], merge, pieces)
    return (*chain.from_iterable(elder), *advanced, *_merged(filled[end:], merge, 0))


def runs_due(heights: Sequence[int]) -> int:
    """Returns how many of the newest runs merge at once: as many as merging in pairs, newest first, would reach if no
    rows cancelled out.

    >>> runs_due([8, 4, 1]), runs_due([9, 2, 1, 1]), runs_due([4, 1, 1]), runs_due([])
    (1, 3, 2, 0)
    """
    many, height = min(1, len(heights)), sum(heights[-1:])
    while many < len(heights) and heights[-many - 1] < MERGE_RATIO * height:
        height += heights[-many - 1]
        many += 1
    return many


def rewritten(runs: Sequence[Run], dead: RowTest, kept: Callable[[Run], Run]) -> Iterator[Run]:
    """Yields the runs. Those whose rows are mostly `dead` are rewritten, but only about `MERGE_RANGE_ROWS` rows in one
    step."""
    left = MERGE_RANGE_ROWS
    for run in runs:
        if left > 0 and run.mostly(dead):
            left -= run.height
            yield kept(run)
        else:
            yield run


def without_tombstones(stack: Sequence[Run], column: str) -> tuple[Run, ...]:
    """Returns the runs without unneeded tombstones: a new run loses its rows with TRUE in `column` if no older run has
    rows in its range."""
    kept, greatest = list[Run](), -1
    for run in stack:
        eldest = run.name is None and not run.merging and greatest < run.sorted_column[0]
        greatest = max(greatest, int(run.sorted_column[-1]))
        kept.append(run.without(lambda frame: frame[column]) if eldest and run.frame[column].any() else run)
    return tuple(run for run in kept if run.height)


def _joining(runs: Sequence[Run]) -> tuple[int, int]:
    """Returns the first range [begin, end) of runs that are being merged into the runs before them."""
    begin = next((at for at, run in enumerate(runs) if run.merging and at), len(runs))
    return begin, next((at for at in range(begin, len(runs)) if not runs[at].merging), len(runs))


def _levels(runs: Sequence[Run]) -> list[list[Run]]:
    """Returns the runs by level."""
    levels: list[list[Run]] = []
    for run in runs:
        if levels and _follows(levels[-1][-1], run):
            levels[-1].append(run)
        else:
            levels.append([run])
    return levels


def _follows(before: Run, run: Run) -> bool:
    """Whether `run` belongs to the level of `before`: both are large, and `run` begins above the end of `before`. Small
    runs must merge even if they do not overlap."""
    return min(before.height, run.height) >= MERGE_RANGE_ROWS // 4 and before.sorted_column[-1] < run.sorted_column[0]


def _merged(runs: Sequence[Run], merge: Merge, pieces: int) -> list[Run]:
    """Returns the runs after the merge that is due, if any: a small merge is done completely, a large one only by
    `pieces` pieces."""
    levels = _levels(runs)
    many = runs_due([sum(run.height for run in level) for level in levels])
    if many < 2:
        return list(runs)
    elder, target, due = list(chain(*levels[:-many])), levels[-many], list(chain(*levels[1 - many :]))
    if sum(run.height for run in (*target, *due)) <= 2 * MERGE_RANGE_ROWS:
        merged = merge([*target, *due])
        return [*elder, merged] if merged.height else elder
    return [*elder, *(_advanced(target, due, merge, pieces) if pieces else [*target, *due])]


def _advanced(target: Sequence[Run], due: Sequence[Run], merge: Merge, pieces: int) -> list[Run]:
    """Returns the runs of a level and the younger runs that merge into it, after some pieces of the merge."""
    done: list[Run] = []
    for _ in range(pieces):
        least = min((run.sorted_column[0] for run in due), default=None)
        before = [run for run in target if least is None or run.sorted_column[-1] < least]
        done, target = [*done, *before], target[len(before) :]
        if len(target) + len(due) < 2:  # no overlapping runs are left
            return [*done, *target, *(replace(run, merging=False) for run in due)]
        end = _end([*target, *due])
        heads = [head for run in (*target, *due) if (head := run.part(0, _place(run, end))).height]
        merged = replace(merge(heads), merging=False)
        done += [merged] if merged.height else []
        target, due = _tails(target, end), _tails(due, end)
    return [*done, *target, *(replace(run, merging=True) for run in due)]


def _tails(runs: Sequence[Run], end: int | None) -> list[Run]:
    return [tail for run in runs if (tail := run.part(_place(run, end), run.height)).height]


def _place(run: Run, end: int | None) -> int:
    return run.height if end is None else int(np.searchsorted(run.sorted_column, run.sorted_column.dtype.type(end)))


def _end(runs: Sequence[Run]) -> int | None:
    """Returns the greatest value before which the runs have at most `MERGE_RANGE_ROWS` rows, or the least value before
    which they have any rows; None if the runs have at most `MERGE_RANGE_ROWS` rows in total."""
    if sum(run.height for run in runs) <= MERGE_RANGE_ROWS:
        return None
    least, greatest = (int(pick(run.sorted_column[at] for run in runs)) for pick, at in ((min, 0), (max, -1)))
    low, high = least + 1, greatest + 1
    while low < high:
        middle = (low + high + 1) // 2
        if sum(_place(run, middle) for run in runs) <= MERGE_RANGE_ROWS:
            low = middle
        else:
            high = middle - 1
    return low
