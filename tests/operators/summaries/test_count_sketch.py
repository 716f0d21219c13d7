"""Count sketches, compared with exact counts."""

from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl
import pytest

from operators.summaries.count_sketch import WIDTH, estimates, likeness, products, sketches_of, value_hashes


def skewed(count: int, seed: int) -> list[int]:
    """Values, few of which are frequent."""
    return np.random.default_rng(seed).zipf(1.3, count).clip(max=10_000).tolist()


def sketch(values: list) -> np.ndarray:
    """The sketch of a list."""
    return sketches_of(value_hashes(pl.Series(values)), np.zeros(len(values), np.int64), 1)[0]


def test_sketches_add_and_subtract() -> None:
    some, more = skewed(300, 1), skewed(500, 2)
    assert (sketch(some) + sketch(more) == sketch(some + more)).all()
    assert (sketch(some + more) - sketch(more) == sketch(some)).all()


def test_groups_are_apart() -> None:
    values, groups = skewed(400, 3), np.random.default_rng(4).integers(0, 3, 400)
    together = sketches_of(value_hashes(pl.Series(values)), groups, 3)
    for group in range(3):
        own = [value for value, of in zip(values, groups, strict=True) if of == group]
        assert (together[group] == sketch(own)).all()


def test_estimates_are_near_the_counts() -> None:
    values = skewed(20_000, 5)
    counts = Counter(values)
    off = np.sqrt(sum(count**2 for count in counts.values()) / WIDTH)
    known = list(counts)
    found = estimates(sketch(values)[None], value_hashes(pl.Series(known)))[0]
    errors = np.abs(found - np.array([counts[value] for value in known]))
    assert (errors > 2 * off).mean() < 0.05


def test_products_are_near_the_size_of_the_join() -> None:
    some, others = skewed(5_000, 6), skewed(8_000, 7)
    matches = Counter(others)
    exact = sum(matches[value] for value in some)
    assert float(products(sketch(some), sketch(others))) == pytest.approx(exact, rel=0.1)


def test_integers_of_all_sizes_and_texts_have_hashes() -> None:
    wide, narrow = (value_hashes(pl.Series([1, None, -5], dtype=kind)) for kind in (pl.Int64, pl.Int16))
    assert wide.tolist() == narrow.tolist()
    texts = value_hashes(pl.Series(["a", None, "b", "a"]))
    assert texts[0] == texts[3]
    assert len(set(texts.tolist())) == 3


def test_the_hash_of_a_value_never_changes() -> None:
    """Published sketches depend on it. The numbers are splitmix64 of 7 and of the text's CRC-32, in Python."""
    assert value_hashes(pl.Series([7])).tolist() == [12603976591970648826]
    assert value_hashes(pl.Series(["seven"])).tolist() == [15022298410633747714]


@pytest.mark.parametrize("shift", [0, 1_000_000])
def test_likeness_detects_a_change_of_values(shift: int) -> None:
    some, others = skewed(2_000, 8), [value + shift for value in skewed(1_000, 9)]
    like = likeness(sketch(some), sketch(others), (2_000, 1_000))
    assert like > 0.9 if shift == 0 else like < 0.2


def test_few_or_distinct_values_count_as_alike() -> None:
    assert likeness(sketch([1] * 5), sketch([2] * 500), (5, 500)) == 1.0
    distinct = list(range(1_000))
    assert likeness(sketch(distinct), sketch([value + 5_000 for value in distinct]), (1_000, 1_000)) > 0.5
