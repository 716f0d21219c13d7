"""Keeps the changes of a result as Parquet files; each file's metadata has the position after its changes."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pyarrow.parquet as parquet

from connectors.durable import flush_to_disk
from connectors.tables.sink import Batch, Position, overtaken_error
from operators.core.errors import ExternalError, UserError

_TOKEN, _RESULT = b"dsms-token", b"dsms-result"
_FILES, _DIGITS = "changes-*.parquet", 12


class ParquetSink:
    """A directory of files `changes-000000000001.parquet`, …, in the order of the changes. Files appear
    atomically.

    >>> import tempfile
    >>> import pyarrow as pa
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     sink = ParquetSink(Path(directory), "hot")
    ...     sink.take(Batch(["+"], [1], pa.table({"room": ["a"]})), "o3:1")
    ...     ParquetSink(Path(directory), "hot").position().token
    'o3:1'
    """

    def __init__(self, directory: Path, result: str) -> None:
        """Raises UserError if the directory has files of another result."""
        self._directory, self._result = directory, result
        try:
            directory.mkdir(parents=True, exist_ok=True)
            files = self._files()
            self._number = int(files[-1].stem.removeprefix("changes-")) if files else 0
            self._position = self._position_of(files[-1]) if files else None
            self._remove_parts()
        except OSError as error:
            raise ExternalError(f'"{directory}" cannot be used: {error.strerror}', retryable=False) from error

    def position(self) -> Position | None:
        """The position up to which changes were taken."""
        return self._position

    def take(self, changes: Batch, token: str) -> None:
        """Writes a file with these changes. Raises UserError if another process has written the next file."""
        described = {_TOKEN: token.encode(), _RESULT: self._result.encode()}
        table, file = changes.table().replace_schema_metadata(described), self._file(self._number + 1)
        part = file.with_name(f".{file.name}.{uuid.uuid4().hex[:8]}")
        try:
            with part.open("wb") as opened:
                parquet.write_table(table, opened, compression="zstd")
            flush_to_disk(part)
            os.link(part, file)  # unlike renaming, linking never replaces an existing file
            flush_to_disk(self._directory)
        except FileExistsError as error:
            raise overtaken_error(f'"{self._directory}"') from error
        except OSError as error:
            raise ExternalError(f'"{file}" cannot be written: {error.strerror}') from error
        finally:
            part.unlink(missing_ok=True)
        self._number, self._position = self._number + 1, self._position_of(file)

    def confirm(self) -> None:
        """Records in the last file's modification time that there were no further changes until now."""
        if self._number:
            os.utime(self._file(self._number))

    def clear(self) -> None:
        """Deletes the files, the last one first; so the position always fits the remaining files."""
        for file in reversed(self._files()):
            file.unlink()
        self._number, self._position = 0, None

    def close(self) -> None:
        """Does nothing, because no resources are held."""

    def _remove_parts(self) -> None:
        """Removes the temporary files that killed processes left. Temporary files of the next file are kept, because a
        superseded process that has not noticed it yet may still be writing one.
        """
        for part in self._directory.glob(f".{_FILES}.*"):
            if part.name[1:] < self._file(self._number + 1).name:
                part.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        return sorted(self._directory.glob(_FILES))

    def _file(self, number: int) -> Path:
        return self._directory / f"changes-{number:0{_DIGITS}}.parquet"

    def _position_of(self, file: Path) -> Position:
        metadata = parquet.read_schema(file).metadata or {}
        result = metadata.get(_RESULT, b"").decode()
        if result != self._result or _TOKEN not in metadata:
            described = f'changes of "{result}"' if result else "files that are not changes of a result"
            raise UserError(f'"{self._directory}" contains {described}', hint="choose another directory")
        return Position(metadata[_TOKEN].decode(), file.stat().st_mtime)
