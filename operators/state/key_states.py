"""KeyStates: the states that each key goes through in a move, numbered key by key."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from operators.core.delta import FOREVER
from operators.kernels.points import first_above


@dataclass(frozen=True)
class KeyStates:
    """A key that changes at n instants has n + 1 states: one before the first instant, and one from each instant on.
    States are numbered key by key. The number of a key's state at an instant is the number of states of all lesser
    keys, plus the number of the key's own changes up to the instant.

    >>> states = KeyStates.of(np.array([2, 2, 5]), np.array([30, 40, 30]))
    >>> states.at(np.array([2, 2, 5, 9]), np.array([29, 35, 30, 30])).tolist()
    [0, 1, 4, 0]
    """

    keys: np.ndarray
    instants: np.ndarray
    #: The number of keys that precede the key of each change.
    earlier: np.ndarray

    @staticmethod
    def of(keys: np.ndarray, instants: np.ndarray) -> KeyStates:
        """Returns the states of keys that change at these instants; pairs may repeat and come in any order."""
        order = np.lexsort((instants, keys))
        key, instant = keys[order], instants[order]
        first = np.ones(len(key), np.bool_)
        first[1:] = (key[1:] != key[:-1]) | (instant[1:] != instant[:-1])
        key, instant = key[first], instant[first]
        return KeyStates(key, instant, np.cumsum(np.append(False, key[1:] != key[:-1])[: len(key)]))

    def at(self, keys: np.ndarray, instants: np.ndarray) -> np.ndarray:
        """Returns, for each key, its state at an instant; 0 for a key without changes."""
        begin, end = np.searchsorted(self.keys, keys), np.searchsorted(self.keys, keys, side="right")
        changed = np.append(self.earlier, 0)[begin] + first_above(self.instants, begin, end, instants)
        return np.where(begin < end, changed, 0)

    def last(self, keys: np.ndarray) -> np.ndarray:
        """Returns, for each key, its last state."""
        return self.at(keys, np.full(len(keys), FOREVER))
