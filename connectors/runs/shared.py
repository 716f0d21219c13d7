"""What a store does with the runs of a fragment that are in its memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

#: The most reports of damage that wait to be drained.
MAX_REPORTS = 1000


class SharedRuns(Protocol):
    """The runs of a fragment in the memory that all hosts share, an account of their sizes, and reports of damage. A
    run consists of fields (`blob.run_fields`). Raises ExternalError while the store is unavailable."""

    @property
    def store(self) -> str:
        """What kind of store it is, such as "redis", as messages name it."""
        ...

    @property
    def fragment(self) -> str:
        """The fragment."""
        ...

    def place(self, name: str) -> str:
        """The location of a run, as alarms name it."""
        ...

    def admit(self, sizes: Mapping[str, int], limit: int | None) -> set[str]:
        """Enters into the account, and returns, the runs that may be written: the smallest first, while the total is
        within the limit. A run that is written again counts once."""
        ...

    def resident(self) -> dict[str, int]:
        """The account: the bytes of each run. It contains at least the runs that exist."""
        ...

    def put(self, runs: Mapping[str, Mapping[str, bytes]]) -> None:
        """Replaces the fields of runs."""
        ...

    def fields(self, name: str) -> Mapping[bytes, bytes]:
        """The fields of a run; none if it does not exist, and fields of a damaged run if it is something else."""
        ...

    def count(self, name: str) -> int:
        """The number of fields of a run; 0 if it does not exist."""
        ...

    def field(self, name: str, field: str) -> bytes | None:
        """One field of a run."""
        ...

    def add(self, name: str, field: str, content: bytes) -> None:
        """Sets one field of a run."""
        ...

    def rename(self, name: str, other: str) -> None:
        """Gives a run another name, and replaces the run that has that name."""
        ...

    def copy(self, fragment: str, names: Mapping[str, str]) -> set[str]:
        """Copies runs of another fragment of the cluster under new names, given by name. Returns the new names of those
        that existed."""
        ...

    def existing(self, names: Sequence[str]) -> set[str]:
        """Those of the runs that exist."""
        ...

    def names(self) -> set[str]:
        """The names of all runs."""
        ...

    def remove(self, names: Iterable[str]) -> None:
        """Removes runs, but not from the account."""
        ...

    def release(self, names: Iterable[str]) -> None:
        """Removes runs, and their entries in the account."""
        ...

    def report(self, damage: Mapping[str, str]) -> None:
        """Adds reports of damage, the reason by place, unless `MAX_REPORTS` wait already."""
        ...

    def drain(self) -> dict[str, str]:
        """Returns and removes the reports of damage."""
        ...
