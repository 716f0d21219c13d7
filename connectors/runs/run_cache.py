"""The file cache of runs (pieces of operator state) on a host: memory-mapped, uncompressed Arrow files with checksums.

A process verifies the checksums of a file when it first uses it, and again if the file was written since. Older
versions wrote no checksums: their files are read without verification, and `check` adds checksums.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Self

import polars as pl
import pyarrow as pa

from connectors.durable import flush_to_disk
from operators.core.checked_file import seal
from operators.core.decoding import Malformed
from operators.core.errors import ExternalError
from operators.core.frame_ipc import map_checked, map_frame

#: The end of an Arrow file, and so of the file of a run from a version without checksums.
_FORMER_END = b"ARROW1"
#: For how many files a process remembers that it has verified them.
_REMEMBERED = 100_000
_UNREADABLE = (pa.ArrowException, pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError)
#: Shows whether a file was written again: its inode, the time of its last change, and its size.
_Version = tuple[int, int, int]


class RunCache:
    """The files of one fragment in a directory of its own. Files of crashed writers are removed by `sweep`.

    >>> with tempfile.TemporaryDirectory() as directory:
    ...     cache = RunCache(Path(directory))
    ...     cache.write("1/a", pl.DataFrame({"k": [1]}), durable=True)
    ...     runs = cache.read("1/a"), cache.read("1/b")
    >>> runs[0]["k"].to_list(), runs[1]
    ([1], None)
    """

    def __init__(self, directory: Path, on_damage: Callable[[str, str], None] = lambda _name, _reason: None) -> None:
        """`on_damage` is called with the name of a run and the reason before its damaged file is removed."""
        self._directory, self._on_damage = directory, on_damage
        self._verified: dict[str, _Version] = {}

    def write(self, name: str, frame: pl.DataFrame, *, durable: bool = False) -> None:
        """Writes a run; a durable one is flushed to disk before this returns, so that it survives a loss of power."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self._directory, suffix=".tmp")
            os.close(handle)
            frame.write_ipc(temporary, compression="uncompressed", compat_level=pl.CompatLevel.newest())
            seal(Path(temporary))
            if durable:
                flush_to_disk(Path(temporary))
            self._remember(name, Path(temporary))
            Path(temporary).rename(self.path(name))
            if durable:
                flush_to_disk(self._directory)
        except OSError as error:
            raise self._write_error(error) from error

    @contextmanager
    def writing_stream(self, name: str, *, durable: bool = False) -> Iterator[IO[bytes]]:
        """A file for the Arrow stream of a run; the run exists once the block ends without an error."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._directory, suffix=".tmp") as stream:
                yield stream
                stream.flush()
                self.write(name, map_frame(Path(stream.name), stream=True), durable=durable)
        except OSError as error:
            raise self._write_error(error) from error

    def link(self, name: str, other: Self, former: str, *, durable: bool = False) -> bool:
        """Stores the run that another fragment has under the name `former`, in the same file. False if this host does
        not have that run, or its file system refuses a second name for the file."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self.path(name).unlink(missing_ok=True)
        except OSError as error:
            raise self._write_error(error) from error
        try:
            os.link(other.path(former), self.path(name))
        except OSError:
            return False
        if durable:
            self.flush([name])
        return True

    def read(self, name: str) -> pl.DataFrame | None:
        """A run, None if this host does not have it. A damaged file is reported and removed."""
        path = self.path(name)
        try:
            version = _version(path)
            if _has_no_checksums(path):
                return map_frame(path, stream=False)
            frame = map_checked(path, stream=False, verify=self._verified.get(name) != version)
            self._remember(name, path, version)
            return frame
        except FileNotFoundError:
            return None
        except Malformed as error:
            self._discard(name, str(error))
        except _UNREADABLE as error:
            self._discard(name, f"it cannot be read: {error}")
        return None

    def check(self, name: str) -> int | None:
        """Verifies the checksums of a run's file, even if this process has already done so; rewrites a file without
        checksums. Returns its size in bytes; None if this host does not have the file, or it was damaged and is
        removed."""
        self._verified.pop(name, None)
        frame = self.read(name)
        if frame is not None and name not in self._verified:
            self.write(name, frame, durable=True)
        return None if frame is None else self.size(name)

    def path(self, name: str) -> Path:
        """The file of a run."""
        return self._directory / (name.replace("/", "_") + ".arrow")

    def flush(self, names: Collection[str]) -> None:
        """Flushes runs of this host to disk. Raises ExternalError if the disk is full or fails, or if one is lost."""
        try:
            for name in sorted(names):
                flush_to_disk(self.path(name))
            if names:
                flush_to_disk(self._directory)
        except FileNotFoundError as error:
            lost = f'a file of state in "{self._directory}" was removed before it was on the disk: {error}'
            raise ExternalError(lost, hint="the epoch is computed again") from error
        except OSError as error:
            raise self._write_error(error) from error

    def size(self, name: str) -> int | None:
        """The size of a run's file in bytes; None if this host does not have it."""
        try:
            return self.path(name).stat().st_size
        except FileNotFoundError:
            return None

    def delete(self, names: Iterable[str]) -> None:
        """Removes runs."""
        for name in names:
            self._verified.pop(name, None)
            self.path(name).unlink(missing_ok=True)

    def sweep(self, kept: Iterable[str], least_age_s: float | None = None) -> int:
        """Removes all files except those of the runs in `kept` and, if a least age is given, younger ones. Returns how
        many it has removed."""
        paths = {self.path(name) for name in kept}
        listed = list(self._directory.iterdir()) if self._directory.exists() else []
        swept = [path for path in listed if path not in paths and (least_age_s is None or _age_s(path) >= least_age_s)]
        for path in swept:
            _remove(path)
        return len(swept)

    def _discard(self, name: str, reason: str) -> None:
        self._on_damage(name, reason)
        self._verified.pop(name, None)
        _remove(self.path(name))

    def _remember(self, name: str, path: Path, version: _Version | None = None) -> None:
        self._verified[name] = version or _version(path)
        while len(self._verified) > _REMEMBERED:
            self._verified.pop(next(iter(self._verified)), None)

    def _write_error(self, error: OSError) -> ExternalError:
        hint = "free disk space, or raise state_memory, so that more state is kept in redis"
        return ExternalError(f'cannot write state to "{self._directory}": {error}', hint=hint)


def _version(path: Path) -> _Version:
    status = path.stat()
    return status.st_ino, status.st_mtime_ns, status.st_size


def _age_s(path: Path) -> float:
    """Seconds since a file was written; 0 if it was removed meanwhile."""
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _has_no_checksums(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-len(_FORMER_END), os.SEEK_END)
        return file.read() == _FORMER_END


def _remove(path: Path) -> None:
    """Removes a file, or a directory that someone else has put in its place."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
