"""The claim of an incarnation on a fragment."""

from __future__ import annotations

from typing import NamedTuple

#: Leases and tokens are times. A claim that is further ahead of the clock than this was never given out.
AHEAD_MS = 10 * 24 * 3600 * 1000


class Claim(NamedTuple):
    """The claim of an incarnation on a fragment; the greatest claim is the owner's. `lease` is that of the executor;
    `token` grows with every recovery under one lease.

    >>> Claim(lease=8, token=1) > Claim(lease=7, token=2) > Claim(lease=7, token=1)
    True
    """

    lease: int
    token: int
