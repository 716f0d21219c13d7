"""The file cache of runs on a host: uncompressed Arrow, mapped into memory where it is read."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import polars as pl
import pyarrow as pa

from operators.core.errors import ExternalError
from operators.core.frame_ipc import map_frame


class RunCache:
    """The files of one fragment in a directory of its own. Files of crashed writers are removed by `sweep`.

    >>> with tempfile.TemporaryDirectory() as directory:
    ...     cache = RunCache(Path(directory))
    ...     cache.write("1/a", pl.DataFrame({"k": [1]}), lasting=True)
    ...     found = cache.read("1/a"), cache.read("1/b")
    >>> found[0]["k"].to_list(), found[1]
    ([1], None)
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write(self, name: str, frame: pl.DataFrame, *, lasting: bool = False) -> None:
        """Keeps a run; a lasting one is on the disk when this returns, even if the host then loses power."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self._directory, suffix=".tmp")
            os.close(handle)
            frame.write_ipc(temporary, compression="uncompressed", compat_level=pl.CompatLevel.newest())
            if lasting:
                _flush(Path(temporary))
            Path(temporary).rename(self._path(name))
            if lasting:
                _flush(self._directory)
        except OSError as error:
            hint = "make room there, or raise state_memory, so that more state lies in redis"
            raise ExternalError(f'state cannot be written to "{self._directory}": {error}', hint=hint) from error

    def read(self, name: str) -> pl.DataFrame | None:
        """A run; None where it is not here. A file that is no run, as a lost disk leaves it, is removed."""
        path = self._path(name)
        try:
            return map_frame(path, stream=False)
        except FileNotFoundError:
            return None
        except pa.ArrowInvalid:
            path.unlink(missing_ok=True)
            return None

    def settle(self, name: str) -> None:
        """Makes a run that is here a lasting one."""
        _flush(self._path(name))
        _flush(self._directory)

    def size(self, name: str) -> int | None:
        """The bytes of a run's file; None where it is not here."""
        try:
            return self._path(name).stat().st_size
        except FileNotFoundError:
            return None

    def delete(self, names: Iterable[str]) -> None:
        """Removes runs."""
        for name in names:
            self._path(name).unlink(missing_ok=True)

    def sweep(self, kept: Iterable[str]) -> None:
        """Removes every file but those of the runs in `kept`."""
        paths = {self._path(name) for name in kept}
        for path in self._directory.iterdir() if self._directory.exists() else ():
            if path not in paths:
                path.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._directory / (name.replace("/", "_") + ".arrow")


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
