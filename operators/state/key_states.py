"""KeyStates: the states that each key goes through in a move, numbered key by key."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from operators.core.delta import FOREVER
from operators.kernels.points import first_above


@dataclass(frozen=True)
class KeyStates:
    """A key that changes at n instants has n + 1 states: one before the first, and one from each instant on.

    >>> states = KeyStates.of(np.array([2, 2, 5]), np.array([30, 40, 30]))
    >>> states.at(np.array([2, 2, 5, 9]), np.array([29, 35, 30, 30])).tolist()
    [0, 1, 4, 0]
    """

    keys: np.ndarray
    instants: np.ndarray
    #: How many other keys come before the key of each change.
    earlier: np.ndarray

    @staticmethod
    def of(keys: np.ndarray, instants: np.ndarray) -> KeyStates:
        """The states of changes, given by key and instant."""
        order = np.lexsort((instants, keys))
        key, at = keys[order], instants[order]
        first = np.ones(len(key), np.bool_)
        first[1:] = (key[1:] != key[:-1]) | (at[1:] != at[:-1])
        key, at = key[first], at[first]
        return KeyStates(key, at, np.cumsum(np.append(False, key[1:] != key[:-1])[: len(key)]))

    def at(self, keys: np.ndarray, instants: np.ndarray) -> np.ndarray:
        """The state of a key at an instant; 0 for a key without changes."""
        begin, end = np.searchsorted(self.keys, keys), np.searchsorted(self.keys, keys, side="right")
        changed = np.append(self.earlier, 0)[begin] + first_above(self.instants, begin, end, instants)
        return np.where(begin < end, changed, 0)

    def last(self, keys: np.ndarray) -> np.ndarray:
        """The last state of a key."""
        return self.at(keys, np.full(len(keys), FOREVER))
