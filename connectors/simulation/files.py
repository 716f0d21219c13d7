"""The disks of simulated hosts: real directories, in which files are damaged and lost as a plan of faults says.

Product code writes its files as always. It makes them by `tempfile` and flushes them by `connectors.durable`: of both,
it sees stand-ins (`SimulatedDisks.stand_ins`), which note what is on the disk, and fail while a disk is full. What was
not flushed is in memory only: it survives the kill of a process, but not that of its host.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

from connectors.durable import flush_to_disk
from connectors.simulation.faults import Fault, FaultPlan, Kind
from connectors.simulation.scheduler import Scheduler
from connectors.simulation.virtual import Module

#: The least and the most seconds that a flush takes.
FLUSH_S = (0.000_2, 0.01)
_FAULTS: tuple[Kind, ...] = ("bit flips", "directory lost")
#: What `tempfile` appends to the beginning of a name that is drawn by the scheduler.
_APPENDED = re.compile(r"(?<=[0-9a-f]{16}-)[a-z0-9_]{8}")


class _Version(NamedTuple):
    """A file with its content, until it is written again."""

    inode: int
    time_ns: int
    size: int

    @staticmethod
    def of(path: Path) -> _Version:
        status = path.stat()
        return _Version(status.st_ino, status.st_mtime_ns, status.st_size)


class SimulatedDisks:
    """The disk of each host, by the name and the directory of the host. Directories themselves, and removals of files,
    are on the disk at once."""

    def __init__(self, scheduler: Scheduler, plan: FaultPlan, hosts: Mapping[str, Path]) -> None:
        self._scheduler, self._plan, self._hosts = scheduler, plan, dict(hosts)
        #: The files whose content is on a disk.
        self._flushed: set[_Version] = set()
        #: The entries of directories that are on a disk: the inode by name.
        self._entries: dict[Path, dict[str, int]] = defaultdict(dict)
        self._full_until: dict[str, float] = {}
        for fault in plan.due(_FAULTS):
            scheduler.call_at(fault.at_s, partial(self._carry_out, fault))

    def stand_ins(self) -> list[tuple[Any, Any]]:
        """What product code uses, and what it gets instead: the argument of `virtual`."""
        functions = {"mkstemp": self._mkstemp, "NamedTemporaryFile": self._named_temporary_file}
        pairs = [(getattr(tempfile, name), function) for name, function in functions.items()]
        return [(tempfile, Module(tempfile, functions)), (flush_to_disk, self.flush), *pairs]

    def flush(self, path: Path) -> None:
        """Stands in for `flush_to_disk`: notes that a file, or the list of entries of a directory, is on the disk.
        Raises OSError if the disk is full."""
        self._scheduler.sleep(self._scheduler.random.uniform(*FLUSH_S))
        self._refuse_if_full(path)
        if path.is_dir():
            self._entries[path.resolve()] = {entry.name: entry.inode() for entry in os.scandir(path)}
        else:
            self._flushed.add(_Version.of(path))

    def lose_unflushed(self, host: str) -> None:
        """Carries out "files lost" after the processes of a host were killed: what was not flushed is lost, torn or
        kept, each at random."""
        for path in self._files(host):
            if _Version.of(path) not in self._flushed:
                self._tear(path)
            elif self._entries[path.parent].get(path.name) != path.stat().st_ino and self._chance():
                self._remove(path)

    def _files(self, host: str) -> list[Path]:
        found = (path for path in self._hosts[host].resolve().rglob("*") if path.is_file() and not path.is_symlink())
        return sorted(found)

    def _tear(self, path: Path) -> None:
        content = path.read_bytes()
        written = self._scheduler.random.randint(0, len(content))
        outcome = self._scheduler.random.choice(("lost", "torn", "zeroed", "kept"))
        if outcome == "lost":
            self._remove(path)
        elif outcome != "kept":
            zeros = len(content) - written if outcome == "zeroed" else 0
            self._scheduler.record(f"disk: {outcome} after {written} B: {_shown(path)}")
            self._rewrite(path, content[:written] + bytes(zeros))

    def _remove(self, path: Path) -> None:
        self._scheduler.record(f"disk: lost: {_shown(path)}")
        path.unlink()

    def _chance(self) -> bool:
        return self._scheduler.random.random() < 0.5

    def _carry_out(self, fault: Fault) -> None:
        host = fault.target or self._scheduler.random.choice(sorted(self._hosts))
        files = [path for path in self._files(host) if path.stat().st_size]
        if not files:
            return
        self._plan.happened[fault.kind] += 1
        path = self._scheduler.random.choice(files)
        self._scheduler.record(f"disk: {fault}: {_shown(path)}")
        if fault.kind == "bit flips":
            self._flip(path)
        else:
            shutil.rmtree(path.parent)

    def _flip(self, path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[self._scheduler.random.randrange(len(content))] ^= 1 << self._scheduler.random.randrange(8)
        self._rewrite(path, bytes(content))

    def _rewrite(self, path: Path, content: bytes) -> None:
        """Changes the content of a file on the disk, but not its times. Processes that have the file open still see the
        former content, as if from memory."""
        status, flushed = path.stat(), _Version.of(path) in self._flushed
        changed = path.with_name(f"{path.name}.changed")
        changed.write_bytes(content)
        os.utime(changed, ns=(status.st_atime_ns, status.st_mtime_ns))
        changed.replace(path)
        if flushed:
            self._flushed.add(_Version.of(path))
        if self._entries[path.parent].get(path.name) == status.st_ino:
            self._entries[path.parent][path.name] = path.stat().st_ino

    def _mkstemp(
        self, suffix: str | None = None, prefix: str | None = None, dir: Path | str | None = None, text: bool = False
    ) -> tuple[int, str]:
        self._refuse_if_full(dir)
        return tempfile.mkstemp(suffix, self._name(prefix), dir, text)

    def _named_temporary_file(self, mode: str = "w+b", *, prefix: str | None = None, **options: Any) -> IO[Any]:
        self._refuse_if_full(options.get("dir"))
        return tempfile.NamedTemporaryFile(mode, prefix=self._name(prefix), **options)

    def _name(self, prefix: str | None) -> str:
        """The beginning of a name, so that the order of files by name is the same in each run."""
        return f"{prefix or 'tmp'}{self._scheduler.random.getrandbits(64):016x}-"

    def _refuse_if_full(self, path: Path | str | None) -> None:
        for host in self._hosts_of(path):
            now = self._scheduler.now
            if fault := self._plan.take(["disk full"], now, host):
                self._full_until[host] = now + fault.for_s
                self._scheduler.record(f"disk: {fault}")
            if now < self._full_until.get(host, 0.0):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    def _hosts_of(self, path: Path | str | None) -> Iterator[str]:
        if path is not None:
            resolved = Path(path).resolve()
            yield from (host for host, root in self._hosts.items() if resolved.is_relative_to(root.resolve()))


def _shown(path: Path) -> str:
    """The name of a file in the trace, without the part that differs in each run."""
    return _APPENDED.sub("", path.name)
