"""The file cache of runs on a host: uncompressed Arrow files, which are mapped into memory."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import polars as pl
import pyarrow as pa

from operators.core.durable import flush_to_disk
from operators.core.errors import ExternalError
from operators.core.frame_ipc import map_frame


class RunCache:
    """The files of one fragment in a directory of its own. Files of crashed writers are removed by `sweep`.

    >>> with tempfile.TemporaryDirectory() as directory:
    ...     cache = RunCache(Path(directory))
    ...     cache.write("1/a", pl.DataFrame({"k": [1]}), lasting=True)
    ...     runs = cache.read("1/a"), cache.read("1/b")
    >>> runs[0]["k"].to_list(), runs[1]
    ([1], None)
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write(self, name: str, frame: pl.DataFrame, *, lasting: bool = False) -> None:
        """Writes a run; a lasting one is flushed to disk before this returns, so that it survives a loss of power."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self._directory, suffix=".tmp")
            os.close(handle)
            frame.write_ipc(temporary, compression="uncompressed", compat_level=pl.CompatLevel.newest())
            if lasting:
                flush_to_disk(Path(temporary))
            Path(temporary).rename(self._path(name))
            if lasting:
                flush_to_disk(self._directory)
        except OSError as error:
            raise self._full(error) from error

    @contextmanager
    def receiving(self, name: str, *, lasting: bool = False) -> Iterator[IO[bytes]]:
        """A file to write the Arrow stream of a run to; the run is there once the block ends without an error."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._directory, suffix=".tmp") as stream:
                yield stream
                stream.flush()
                self.write(name, map_frame(Path(stream.name), stream=True), lasting=lasting)
        except OSError as error:
            raise self._full(error) from error

    def read(self, name: str) -> pl.DataFrame | None:
        """A run, None if this host does not have it. A damaged file, as a loss of power may leave it, is removed."""
        path = self._path(name)
        try:
            return map_frame(path, stream=False)
        except FileNotFoundError:
            return None
        except (pa.ArrowException, pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError):
            _remove(path)
            return None

    def settle(self, name: str) -> None:
        """Flushes a run of this host to disk."""
        flush_to_disk(self._path(name))
        flush_to_disk(self._directory)

    def size(self, name: str) -> int | None:
        """The size of a run's file in bytes; None if this host does not have it."""
        try:
            return self._path(name).stat().st_size
        except FileNotFoundError:
            return None

    def delete(self, names: Iterable[str]) -> None:
        """Removes runs."""
        for name in names:
            self._path(name).unlink(missing_ok=True)

    def sweep(self, kept: Iterable[str]) -> None:
        """Removes all files except those of the runs in `kept`."""
        paths = {self._path(name) for name in kept}
        for path in self._directory.iterdir() if self._directory.exists() else ():
            if path not in paths:
                _remove(path)

    def _full(self, error: OSError) -> ExternalError:
        hint = "free disk space, or raise state_memory, so that more state is kept in redis"
        return ExternalError(f'cannot write state to "{self._directory}": {error}', hint=hint)

    def _path(self, name: str) -> Path:
        return self._directory / (name.replace("/", "_") + ".arrow")


def _remove(path: Path) -> None:
    """Removes a file, or a directory that somebody else made in the place of one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
