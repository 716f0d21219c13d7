"""Tab completion of object names: those that the coordinator knows. Without its answer, nothing is completed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import typer

from dsms.cli.cluster import DEFAULT_DATA_DIR, connect
from operators.core.errors import DsmsError

Kind = Literal["sources", "streams", "queries"]


def object_names(*kinds: Kind) -> Callable[[typer.Context, str], list[str]]:
    """A completion of the names of objects of these kinds, for the cluster that the options before it choose."""

    def completed(ctx: typer.Context, incomplete: str) -> list[str]:
        return sorted(name for name in _known(ctx.params, kinds) if name.startswith(incomplete))

    return completed


def names_of(session: object, kinds: tuple[Kind, ...] = ("sources", "streams", "queries")) -> set[str]:
    """The names of the objects of these kinds that a session lists; none if the coordinator does not answer."""
    listings = [getattr(session, kind, None) for kind in kinds]
    try:
        return {str(document["name"]) for listing in listings if listing for document in listing()}
    except DsmsError:
        return set()


def _known(options: dict[str, Any], kinds: tuple[Kind, ...]) -> set[str]:
    try:
        with connect(options.get("coordinator"), Path(options.get("data_dir") or DEFAULT_DATA_DIR)) as api:
            return names_of(api, kinds)
    except DsmsError:
        return set()
