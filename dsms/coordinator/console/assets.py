"""The files of the web console, read once, and a generated module with the choices of its forms."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

import msgspec

from dsms.scheduling.registry import POLICIES

#: The file served at the console's root address.
START = "index.html"
_TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css"}


@dataclass(frozen=True)
class Asset:
    """A file: its content, its media type, and a tag that changes with the content."""

    content: bytes
    media_type: str
    tag: str


@cache
def assets() -> Mapping[str, Asset]:
    """The files by their paths below `static`.

    >>> assets()[START].media_type, sorted(assets())[:2]
    ('text/html', ['api.js', 'audit.js'])
    """
    return dict(_below(files(__package__) / "static", "")) | {"policies.js": _asset(_policies(), "text/javascript")}


def _below(folder: Traversable, prefix: str) -> Iterator[tuple[str, Asset]]:
    for item in folder.iterdir():
        if item.is_dir():
            yield from _below(item, f"{prefix}{item.name}/")
        elif media_type := _TYPES.get(item.name.rpartition(".")[2]):
            yield f"{prefix}{item.name}", _asset(item.read_bytes(), media_type)


def _asset(content: bytes, media_type: str) -> Asset:
    return Asset(content, media_type, f'"{hashlib.sha256(content).hexdigest()[:16]}"')


def _policies() -> bytes:
    """The names of the scheduling policies as a JavaScript module."""
    return b"export const POLICIES = " + msgspec.json.encode(list(POLICIES)) + b";\n"
