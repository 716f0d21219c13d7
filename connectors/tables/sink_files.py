"""The changes of a result as Parquet files: each file has some of them, and in its metadata the position after them."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet

from operators.core.errors import ExternalError, UserError

_TOKEN, _RESULT = b"dsms-token", b"dsms-result"
_DIGITS = 12


class ParquetSink:
    """A directory of files `changes-000000000001.parquet`, …, in the order of the changes. A file is there as a whole
    or not at all.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     sink = ParquetSink(Path(directory), "hot")
    ...     sink.take(pa.table({"op": ["+"], "ts": [1], "room": ["a"]}), "o3:1")
    ...     ParquetSink(Path(directory), "hot").token()
    'o3:1'
    """

    def __init__(self, directory: Path, result: str) -> None:
        """UserError for a directory with files of another result."""
        self._directory, self._result = directory, result
        try:
            directory.mkdir(parents=True, exist_ok=True)
            for unfinished in directory.glob("changes-*.parquet.part"):
                unfinished.unlink()
            files = sorted(directory.glob("changes-*.parquet"))
            self._number = int(files[-1].stem.removeprefix("changes-")) if files else 0
            self._token = self._position(files[-1]) if files else None
        except OSError as error:
            raise ExternalError(f'"{directory}" cannot be used: {error.strerror}', retryable=False) from error

    def token(self) -> str | None:
        """The position up to which changes were taken."""
        return self._token

    def take(self, changes: pa.Table, token: str) -> None:
        """Writes a file of these changes."""
        described = {_TOKEN: token.encode(), _RESULT: self._result.encode()}
        table = changes.replace_schema_metadata(described)
        file = self._directory / f"changes-{self._number + 1:0{_DIGITS}}.parquet"
        part = file.with_suffix(".parquet.part")
        try:
            with part.open("wb") as opened:
                parquet.write_table(table, opened, compression="zstd")
                opened.flush()
                os.fsync(opened.fileno())
            part.rename(file)
            _sync(self._directory)
        except OSError as error:
            raise ExternalError(f'"{file}" cannot be written: {error.strerror}') from error
        self._number, self._token = self._number + 1, token

    def close(self) -> None:
        """Nothing is held."""

    def _position(self, file: Path) -> str:
        metadata = parquet.read_schema(file).metadata or {}
        result = metadata.get(_RESULT, b"").decode()
        if result != self._result or _TOKEN not in metadata:
            described = f'changes of "{result}"' if result else "files of something else"
            raise UserError(f'"{self._directory}" has {described}', hint="choose another directory")
        return metadata[_TOKEN].decode()


def _sync(directory: Path) -> None:
    """A renamed file outlives a crash of the machine once its directory is written."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
