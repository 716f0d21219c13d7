"""HashDirectory finds the same positions as a binary search, for hashes of any distribution."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import operators.core.run
from operators.core.delta import Delta
from operators.core.hash_directory import HashDirectory
from operators.state.trace import Trace

HASH = st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([0, 1, 2**63, 2**64 - 1]))


@example([], [0, 2**64 - 1])
@example([5] * 100, [4, 5, 6])
@given(st.lists(HASH, max_size=200), st.lists(HASH, max_size=20))
def test_places_are_those_of_a_binary_search(hashes, wanted) -> None:
    column, sought = np.sort(np.array(hashes, np.uint64)), np.array(wanted, np.uint64)
    assert HashDirectory.of(column).first(sought).tolist() == np.searchsorted(column, sought).tolist()


def test_a_trace_finds_the_same_with_a_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Delta.of([("+", {"k": k % 700, "n": k}, 1) for k in range(2_000)])
    reads = []
    for limit in (1, 10_000):
        monkeypatch.setattr(operators.core.run, "WORTHWHILE", limit)
        trace = Trace("key", ("k",)).append(rows, 2)
        assert (trace.runs[0].directory is None) == (limit > 2_000)
        reads.append(sorted(trace.lookup(rows.frame[::3], 2).frame["n"].to_list()))
    assert reads[0] == reads[1] == sorted(n for n in range(2_000) if n % 700 in {k % 700 for k in range(0, 2_000, 3)})
