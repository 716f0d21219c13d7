"""Decides which runs of a fragment a store keeps in memory, and which only on disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

#: New runs are written before those that they replace are removed, so each of the two gets half of the limit.
_SETTLED = 2


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
        if left * _SETTLED <= limit:
            break
        gone.append(name)
        left -= resident[name]
    return gone


@dataclass(frozen=True)
class MemoryQuota:
    """Some runs of a fragment, and how many bytes they may take in memory."""

    names: frozenset[str]
    limit: int


def leaving(resident: Mapping[str, int], limit: int | None, parts: Iterable[MemoryQuota]) -> set[str]:
    """The runs to keep only on disk: those of each part that exceed its limit, and then those of the rest that exceed
    the limit of all.

    >>> sorted(leaving({"a": 70, "b": 20, "c": 40}, 100, [MemoryQuota(frozenset("bc"), 50)]))
    ['a', 'c']
    """
    own = [overflow({name: resident[name] for name in part.names & resident.keys()}, part.limit) for part in parts]
    gone = {name for listed in own for name in listed}
    return gone.union(overflow({name: size for name, size in resident.items() if name not in gone}, limit))


@dataclass(frozen=True)
class RunLocations:
    """Where runs are: the sizes in bytes, by name, of those in memory, which all hosts can read, and of those only on
    the disk of this host."""

    resident: dict[str, int]
    disk: dict[str, int]
