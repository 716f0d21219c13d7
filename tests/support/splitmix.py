"""splitmix64 in Python's integers: the numbers by which the product samples and sheds, computed in another way."""

from __future__ import annotations

_GAMMA = 0x9E3779B97F4A7C15
#: The salt of shedding; samples have smaller ones.
SHEDDING = 1 << 20


def place(source: int, partition: int, offset: int) -> int:
    """The number of a record."""
    return (source << 55) + (partition << 45) + offset


def chance(number: int, salt: int) -> float:
    """A number in [0, 1) as in the paper of Steele, Lea and Flood (OOPSLA 2014). A record is kept if it is below the
    rate."""
    z = (number + _GAMMA * (2 * salt + 1)) % 2**64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
    return ((z ^ (z >> 31)) >> 11) / 2**53
