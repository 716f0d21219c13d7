"""Decides which runs of a fragment a store keeps in memory, and which only on disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import polars as pl

#: New runs are written before those that they replace are removed, so each of the two gets half of the limit.
_SHARES = 2
#: The memory is full if the runs in it take this part of the limit. After an epoch they take at most a half.
_FULL = 4


def overflow(resident: Mapping[str, int], limit: int | None) -> list[str]:
    """The runs to keep only on disk, given the bytes of each in memory: the largest, which are rewritten least often,
    until the others take at most half of the limit.

    >>> overflow({"a": 70, "b": 20, "c": 40}, 130), overflow({"a": 70, "b": 20}, 200), overflow({"a": 70}, None)
    (['a'], [], [])
    """
    if limit is None:
        return []
    left, gone = sum(resident.values()), list[str]()
    for name in sorted(resident, key=lambda name: (-resident[name], name)):
        if left * _SHARES <= limit:
            break
        gone.append(name)
        left -= resident[name]
    return gone


def runs_below(runs: Mapping[str, pl.DataFrame], disk_from: int | None) -> dict[str, pl.DataFrame]:
    """The runs that may be put into memory: those of fewer than `disk_from` bytes; None: all.

    >>> runs = {"a": pl.DataFrame({"k": [1]}), "b": pl.DataFrame({"k": [1, 2]})}
    >>> list(runs_below(runs, 16)), list(runs_below(runs, None))
    (['a'], ['a', 'b'])
    """
    if disk_from is None:
        return dict(runs)
    return {name: frame for name, frame in runs.items() if frame.estimated_size() < disk_from}


@dataclass(frozen=True)
class MemoryQuota:
    """Some runs of a fragment, and how many bytes they may take in memory."""

    names: frozenset[str]
    limit: int


def runs_to_spill(resident: Mapping[str, int], limit: int | None, quotas: Iterable[MemoryQuota]) -> set[str]:
    """The runs to keep only on disk: those of each quota that exceed its limit, and then those of the rest that exceed
    the limit of all.

    >>> sorted(runs_to_spill({"a": 70, "b": 20, "c": 40}, 100, [MemoryQuota(frozenset("bc"), 50)]))
    ['a', 'c']
    """
    own = [overflow({name: resident[name] for name in quota.names & resident.keys()}, quota.limit) for quota in quotas]
    gone = {name for listed in own for name in listed}
    return gone.union(overflow({name: size for name, size in resident.items() if name not in gone}, limit))


@dataclass(frozen=True)
class RunLocations:
    """Where runs are: the sizes in bytes, by name, of those in memory, which all hosts can read, and of those only on
    the disk of this host."""

    resident: dict[str, int]
    disk: dict[str, int]

    def disk_from(self, limit: int | None, quotas: Iterable[MemoryQuota] = ()) -> int | None:
        """The size from which on new runs are on disk after the next epoch, because smaller ones are already there, so
        that they need not be put into memory first; None if the memory still has room. Runs with a quota of their own
        may be on disk because of that.

        >>> locations = RunLocations({"a": 30}, {"b": 400, "c": 90, "d": 1})
        >>> quotas = [MemoryQuota(frozenset("d"), 0)]
        >>> locations.disk_from(100, quotas), locations.disk_from(150, quotas), locations.disk_from(None)
        (90, None, None)
        """
        if limit is None or _FULL * sum(self.resident.values()) < limit:
            return None
        others = self.disk.keys() - {name for quota in quotas for name in quota.names}
        return min((size for name in others if (size := self.disk[name])), default=None)
