"""Converts msgspec structs to JSON and back; paths are text in JSON."""

from pathlib import Path
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def encode(value: msgspec.Struct) -> bytes:
    """The struct as JSON.

    >>> from dsms.local.settings import LocalSettings
    >>> decode(encode(LocalSettings(data_dir=Path("/d"))), LocalSettings).data_dir
    PosixPath('/d')
    """
    return msgspec.json.encode(value, enc_hook=_to_json)


def decode(data: bytes | str, kind: type[T]) -> T:
    """The struct from JSON."""
    return msgspec.json.decode(data, type=kind, dec_hook=_from_json)


def convert(values: dict[str, Any], kind: type[T]) -> T:
    """The struct from plain values; numbers may be given as text."""
    return msgspec.convert(values, kind, strict=False, dec_hook=_from_json)


def _to_json(value: object) -> str:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(f"no json for {type(value)}")


def _from_json(kind: type, value: Any) -> Any:
    return Path(value) if kind is Path else value
