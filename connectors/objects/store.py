"""Stores objects, which are bytes with a name, in a directory or an object store, through fsspec. Writes are atomic."""

from __future__ import annotations

import hashlib
import sys
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import fsspec

from connectors.durable import flush_to_disk
from operators.core.errors import ConfigError, ExternalError

_PIECE = 16 * 1024 * 1024
#: S3 requires parts of at least 5 MB; a part is in memory while it is sent.
_PART = 32 * 1024 * 1024
_S3 = {"connect_timeout": 5, "read_timeout": 60}
_FORMS = "/a/directory, file:///a/directory, s3://bucket/prefix"


@dataclass(frozen=True, slots=True)
class Stored:
    """The size and the checksum of an object."""

    bytes: int
    sha256: str


class ObjectStore:
    """The objects below a URL. Credentials and the endpoint come from the environment or from files of the S3 client,
    never from the URL: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_ENDPOINT_URL`, `AWS_PROFILE` and so on.

    >>> ObjectStore("s3://key:secret@bucket/checkpoints")
    Traceback (most recent call last):
    ...
    operators.core.errors.ConfigError: the URL of a store must not hold credentials; they come from the environment
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if "@" in parts.netloc:
            raise ConfigError("the URL of a store must not hold credentials", hint="they come from the environment")
        self.url = url
        options: dict[str, Any] = {"skip_instance_cache": True, "use_listings_cache": False}
        if parts.scheme in ("s3", "s3a"):
            options |= {"config_kwargs": _S3, "default_block_size": _PART}
        try:
            self._files, root = fsspec.core.url_to_fs(url, **options)
        except (ValueError, ImportError) as error:
            raise ConfigError(f'"{url}" is not the URL of a store: {error}', hint=f"have: {_FORMS}") from error
        self._root = root.rstrip("/")
        self._local = "file" in self._files.protocol

    def write(self, name: str, pieces: Iterable[bytes]) -> Stored:
        """Writes or replaces an object. Until this returns, readers see the old object, or none."""
        digest, size = hashlib.sha256(), 0
        with self._translated(f'writing "{name}"'), self._writing(self._path(name)) as out:
            for piece in pieces:
                digest.update(piece)
                size += len(piece)
                out.write(piece)
        return Stored(size, digest.hexdigest())

    def read(self, name: str) -> Iterator[bytes]:
        """The pieces of an object. Raises ExternalError, not retryable, if the object does not exist."""
        with self._translated(f'reading "{name}"'), self._files.open(self._path(name), "rb") as source:
            while piece := source.read(_PIECE):
                yield piece

    def names(self, prefix: str) -> dict[str, int]:
        """The names of all objects below a prefix, with their sizes in bytes. A missing bucket is a retryable error,
        not an empty store."""
        with self._translated(f'listing "{prefix}"'):
            try:
                found = self._files.find(self._path(prefix), detail=True)
            except FileNotFoundError as error:
                raise ExternalError(
                    f'"{self.url}" does not exist', hint="create the bucket, or use another one"
                ) from error
        cut = len(self._root) + 1
        return {path[cut:]: int(entry["size"]) for path, entry in found.items() if not path.endswith(_UNFINISHED)}

    def delete(self, names: Iterable[str]) -> None:
        """Removes objects; those that do not exist are ignored."""
        for name in names:
            with self._translated(f'removing "{name}"'):
                try:
                    self._files.rm_file(self._path(name))
                except FileNotFoundError:
                    continue

    def copy(self, name: str, other: str) -> None:
        """Copies an object under another name."""
        with self._translated(f'copying "{name}"'):
            if self._local:
                Path(self._path(other)).parent.mkdir(parents=True, exist_ok=True)
            self._files.cp_file(self._path(name), self._path(other))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    @contextmanager
    def _writing(self, path: str) -> Iterator[Any]:
        if self._local:
            with _replacing(Path(path)) as file:
                yield file
            return
        out = self._files.open(path, "wb", autocommit=False, block_size=_PART)
        try:
            yield out
            out.close()
        except BaseException:
            out.discard()
            out.closed = True  # otherwise the finaliser would begin another upload
            raise
        out.commit()

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        """Raises this project's errors instead of the file system's. A missing directory is an error, not an empty
        store, because it may not be mounted.
        """
        if self._local and not Path(self._root).is_dir():
            raise ExternalError(f'{doing} failed: directory "{self._root}" does not exist', hint="create or mount it")
        try:
            yield
        except FileNotFoundError as error:
            raise ExternalError(f'{doing} in "{self.url}" failed: it does not exist', retryable=False) from error
        except _errors() as error:
            raise ExternalError(f'{doing} in "{self.url}" failed: {type(error).__name__}: {error}') from error


_UNFINISHED = ".unfinished"


@contextmanager
def _replacing(path: Path) -> Iterator[Any]:
    """A file that gets its name once it is complete and on disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}{_UNFINISHED}")
    try:
        with temporary.open("wb") as file:
            yield file
        flush_to_disk(temporary)
        temporary.replace(path)
        flush_to_disk(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _errors() -> tuple[type[Exception], ...]:
    """The errors of the loaded clients; the S3 client is imported only if it is used."""
    botocore, aiohttp = sys.modules.get("botocore.exceptions"), sys.modules.get("aiohttp")
    of_s3 = (botocore.BotoCoreError, botocore.ClientError) if botocore else ()
    return (OSError, *of_s3, *((aiohttp.ClientError,) if aiohttp else ()))
