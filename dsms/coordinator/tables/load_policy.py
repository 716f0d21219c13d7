"""Restricts what COPY and LOAD TABLE may read with the coordinator's rights: nothing, unless its options permit it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from connectors.credentials.secrets import check_no_secret
from dsms.model.statements import Load, LoadDatabase
from operators.core.errors import UserError


@dataclass(frozen=True, slots=True)
class LoadPolicy:
    """A directory of files that may be read, and whether databases may be queried. All callers who may send such
    statements read with the coordinator's rights."""

    directory: Path | None = None
    databases: bool = False

    def checked(self, load: Load) -> Load:
        """The statement with the absolute path of its file. Raises UserError if it is not allowed."""
        if isinstance(load, LoadDatabase):
            if not self.databases:
                raise UserError(
                    "the coordinator may not connect to databases",
                    hint="start the coordinator with --load-databases to allow it",
                )
            check_no_secret(load.url, "the url of a database")
            return load
        return replace(load, path=str(self._inside(load.path)))

    def _inside(self, name: str) -> Path:
        if self.directory is None:
            hint = "send a file from your machine with dsms load TABLE FILE, or start the coordinator with --load-dir"
            raise UserError("the coordinator may not read files of its machine", hint=hint)
        path = (self.directory / name).resolve()
        if not path.is_relative_to(self.directory.resolve()):
            raise UserError(f'"{name}" is outside the directory of files to load')
        return path
