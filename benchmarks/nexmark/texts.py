"""NEXMark's random texts: pools generated once from a seed. Rows take random members, cut to a random length."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.nexmark.timeline import Ints

COLD_CHANNELS = 10_000
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
_POOL, _LONGEST = 4_096, 640
_LETTERS = 26
_BLANK = 1 / 13
_NO_CHANNEL_ID = 0.1


@dataclass(frozen=True)
class Pools:
    """Random texts: `words` by their greatest length (5, 7, 20 and 100), `letters` long enough for every filling, and
    the channels with their urls, hot ones first."""

    words: dict[int, pl.Series]
    letters: pl.Series
    channels: pl.Series
    urls: pl.Series


@lru_cache(maxsize=4)
def pools(seed: int) -> Pools:
    """The pools of a seed."""
    rng = np.random.default_rng((seed, 0xB1D))
    words = {longest: _words(rng, longest, _POOL, b" ") for longest in (5, 7, 20, 100)}
    letters = _texts(rng.integers(97, 97 + _LETTERS, (_POOL, _LONGEST)).astype(np.uint8), np.full(_POOL, _LONGEST))
    channels = [*HOT_CHANNELS, *(f"channel-{number}" for number in range(COLD_CHANNELS))]
    return Pools(words, letters, pl.Series(channels), _urls(rng))


def _words(rng: np.random.Generator, longest: int, count: int, blank: bytes) -> pl.Series:
    """Texts of 3 to `longest` - 1 characters. One character in thirteen is a blank, but none at the ends."""
    codes = rng.integers(97, 97 + _LETTERS, (count, longest)).astype(np.uint8)
    codes[rng.random(codes.shape) < _BLANK] = blank[0]
    return _texts(codes, 3 + rng.integers(0, longest - 3, count)).str.strip_chars()


def _texts(codes: NDArray[np.uint8], lengths: Ints) -> pl.Series:
    return pl.Series([row[:size].tobytes().decode() for row, size in zip(codes, lengths, strict=True)])


def _urls(rng: np.random.Generator) -> pl.Series:
    """One URL per channel. For nine in ten cold channels it contains the id of the channel."""
    count = len(HOT_CHANNELS) + COLD_CHANNELS
    parts = [_words(rng, 5, count, b"_").rename(name) for name in ("a", "b", "c")]
    page = pl.format("https://www.nexmark.com/{}/{}/{}/item.htm?query=1", "a", "b", "c")
    named = rng.random(COLD_CHANNELS) >= _NO_CHANNEL_ID
    suffixes = [f"&channel_id={channel_id(number)}" if named[number] else "" for number in range(COLD_CHANNELS)]
    ends = pl.Series("end", [""] * len(HOT_CHANNELS) + suffixes)
    return pl.DataFrame([*parts, ends]).select((page + pl.col("end")).alias("url"))["url"]


def channel_id(number: int) -> int:
    """The 32 bits of a number in reverse order, read as a signed integer, without its sign.

    >>> channel_id(1), channel_id(2), channel_id(3)
    (2147483648, 1073741824, 1073741824)
    """
    bits = int(f"{number:032b}"[::-1], 2)
    return abs(bits - (1 << 32) if bits >= 1 << 31 else bits)


def fillings(rng: np.random.Generator, letters: pl.Series, used: Ints, size: int) -> pl.Series:
    """Random letters that fill each row from `used` bytes up to `size` on average. The length of the filling varies by
    a fifth."""
    rest = np.maximum(size - used, 0)
    spread = np.rint(rest * 0.2).astype(np.int64)
    lengths = rest - spread + (rng.random(len(used)) * 2 * spread).astype(np.int64)
    frame = pl.DataFrame({"text": pick(rng, letters, len(used)), "length": lengths})
    return frame.select(pl.col("text").str.head(pl.col("length")))["text"]


def pick(rng: np.random.Generator, pool: pl.Series, count: int) -> pl.Series:
    """`count` members of a pool, drawn uniformly."""
    return pool.gather(rng.integers(0, len(pool), count))
