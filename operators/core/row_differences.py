"""Decides by hashes whether all rows differ. If they do, which is the common case, weights need no grouping."""

from __future__ import annotations

import numpy as np
import polars as pl


def all_differ(frame: pl.DataFrame) -> bool:
    """Whether no two rows are equal. True is certain; False may be wrong if hashes collide or columns are nested.

    >>> all_differ(pl.DataFrame({"a": [1, 2]})), all_differ(pl.DataFrame({"a": [1, 1]}))
    (True, False)
    """
    if not frame.width or any(dtype.is_nested() for dtype in frame.dtypes):
        return frame.height < 2
    ordered = np.sort(frame.hash_rows().to_numpy())
    return not (ordered[1:] == ordered[:-1]).any()
