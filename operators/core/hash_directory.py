"""HashDirectory: where each prefix of hashes begins in a long sorted column, to shorten searches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: The length from which most steps of a binary search over the whole column miss the processor's caches.
WORTHWHILE = 1 << 21
_BITS = 64
#: The binary logarithm of the average number of values that share a directory entry.
_SHARE = 5


@dataclass(frozen=True, slots=True)
class HashDirectory:
    """`first(h)` = `numpy.searchsorted(hashes, h)`, in an expected number of steps that is independent of the length.

    Hashes are uniformly distributed, so the leading bits of a hash give nearly its index. A skewed column is searched
    correctly too, in up to log n steps.

    >>> directory = HashDirectory.of(np.arange(0, 2**64, 2**56, dtype=np.uint64))
    >>> directory.first(np.array([0, 2**56 + 1, 2**57], np.uint64))
    array([0, 2, 2])
    """

    hashes: np.ndarray
    begins: np.ndarray
    shift: np.uint64

    @staticmethod
    def of(hashes: np.ndarray) -> HashDirectory:
        """The directory of an ascending uint64 column."""
        bits = max(1, len(hashes).bit_length() - _SHARE)
        shift = np.uint64(_BITS - bits)
        edges = np.arange(1 << bits, dtype=np.uint64) << shift
        return HashDirectory(hashes, np.append(np.searchsorted(hashes, edges), len(hashes)), shift)

    def first(self, wanted: np.ndarray) -> np.ndarray:
        """For each of the `wanted` uint64 hashes, the index of the first hash in the column that is not less."""
        entry = (wanted >> self.shift).astype(np.int64)
        begin, end = self.begins[entry], self.begins[entry + 1]
        while len(wide := np.flatnonzero(begin < end)):
            middle = (begin[wide] + end[wide]) >> 1
            less = self.hashes[middle] < wanted[wide]
            begin[wide] = np.where(less, middle + 1, begin[wide])
            end[wide] = np.where(less, end[wide], middle)
        return begin
