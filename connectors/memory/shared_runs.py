"""The runs of a fragment in memory in the form in which a server has them: as bytes with checksums."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from connectors.runs.blob import frame_of_run
from connectors.runs.shared import MAX_REPORTS
from operators.core.decoding import Malformed
from operators.core.errors import ExternalError


@dataclass
class SharedContent:
    """The fields of each run, the account of their sizes, and the reports of damage: the reason by place."""

    runs: dict[str, dict[bytes, bytes]] = field(default_factory=dict)
    account: dict[str, int] = field(default_factory=dict)
    damage: dict[str, str] = field(default_factory=dict)

    def copy(self) -> SharedContent:
        """The same content, which later calls do not change."""
        runs = {name: dict(fields) for name, fields in self.runs.items()}
        return SharedContent(runs, dict(self.account), dict(self.damage))


class MemorySharedRuns:
    """Implements `connectors.runs.shared.SharedRuns`. Several threads may use it.

    >>> runs = MemorySharedRuns("0", {})
    >>> sorted(runs.admit({"1/large": 70, "1/small": 20}, 80))
    ['1/small']
    >>> runs.put({"1/small": {"0": b"abc"}})
    >>> runs.names(), runs.field("1/small", "0"), runs.resident()
    ({'1/small'}, b'abc', {'1/small': 20})
    """

    store = "memory"

    def __init__(self, fragment: str, fragments: Mapping[str, MemorySharedRuns]) -> None:
        """`fragments` are the runs of all fragments of the cluster."""
        self.fragment, self._fragments, self._lock = fragment, fragments, threading.Lock()
        self.content = SharedContent()

    def place(self, name: str) -> str:
        """The location of a run, as alarms name it."""
        return f"run {self.fragment} {name}"

    def admit(self, sizes: Mapping[str, int], limit: int | None) -> set[str]:
        """Enters and returns the runs that may be written: smallest first, while the total is within the limit."""
        with self._lock:
            account = {name: size for name, size in self.content.account.items() if name not in sizes}
            total, admitted = sum(account.values()), dict[str, int]()
            for name in sorted(sizes, key=lambda name: (sizes[name], name)):
                total += sizes[name]
                if limit is not None and total > limit:
                    break
                admitted[name] = sizes[name]
            self.content.account = account | admitted
            return set(admitted)

    def resident(self) -> dict[str, int]:
        """The account: the bytes of each run."""
        with self._lock:
            return dict(self.content.account)

    def put(self, runs: Mapping[str, Mapping[str, bytes]]) -> None:
        """Replaces the fields of runs."""
        with self._lock:
            for name, fields in runs.items():
                self.content.runs[name] = {key.encode(): content for key, content in fields.items()}

    def fields(self, name: str) -> Mapping[bytes, bytes]:
        """The fields of a run; none if it does not exist."""
        with self._lock:
            return dict(self.content.runs.get(name, {}))

    def count(self, name: str) -> int:
        """The number of fields of a run; 0 if it does not exist."""
        return len(self.fields(name))

    def field(self, name: str, field: str) -> bytes | None:
        """One field of a run."""
        return self.fields(name).get(field.encode())

    def add(self, name: str, field: str, content: bytes) -> None:
        """Sets one field of a run."""
        with self._lock:
            self.content.runs.setdefault(name, {})[field.encode()] = content

    def rename(self, name: str, other: str) -> None:
        """Gives a run another name, and replaces the run that has that name."""
        with self._lock:
            if name not in self.content.runs:
                raise ExternalError(f'run "{name}" does not exist', retryable=True)
            self.content.runs[other] = self.content.runs.pop(name)

    def copy(self, fragment: str, names: Mapping[str, str]) -> set[str]:
        """Copies runs of another fragment under new names; returns the new names of those that existed."""
        found = {new: self._fragments[fragment].fields(name) for name, new in names.items()}
        with self._lock:
            self.content.runs |= {new: dict(fields) for new, fields in found.items() if fields}
        return {new for new, fields in found.items() if fields}

    def existing(self, names: Sequence[str]) -> set[str]:
        """Those of the runs that exist."""
        return self.names().intersection(names)

    def names(self) -> set[str]:
        """The names of all runs."""
        with self._lock:
            return set(self.content.runs)

    def remove(self, names: Iterable[str]) -> None:
        """Removes runs, but not from the account."""
        with self._lock:
            for name in names:
                self.content.runs.pop(name, None)

    def release(self, names: Iterable[str]) -> None:
        """Removes runs, and their entries in the account."""
        with self._lock:
            for name in names:
                self.content.runs.pop(name, None)
                self.content.account.pop(name, None)

    def report(self, damage: Mapping[str, str]) -> None:
        """Adds reports of damage, unless too many wait already."""
        with self._lock:
            if len(self.content.damage) < MAX_REPORTS:
                self.content.damage |= damage

    def drain(self) -> dict[str, str]:
        """Returns and removes the reports of damage."""
        with self._lock:
            found, self.content.damage = self.content.damage, {}
            return found

    def problem(self, name: str) -> str | None:
        """Why a run is damaged; None if it is sound."""
        try:
            frame_of_run(self.fields(name))
        except Malformed as error:
            return str(error)
        return None

    def damage_run(self, name: str) -> None:
        """Flips a bit in the first piece of a run, as a fault of a server may."""
        blob = bytearray(self.content.runs[name][b"0"])
        blob[len(blob) // 2] ^= 1
        self.content.runs[name][b"0"] = bytes(blob)
