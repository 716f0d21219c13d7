"""Tab completion of object names: those that the coordinator knows. Without its answer, nothing is completed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import typer

from dsms.cli.api_client import ApiClient
from dsms.cli.cluster import DEFAULT_DATA_DIR, connect
from operators.core.errors import DsmsError

Kind = Literal["sources", "streams", "queries"]


def object_names(*kinds: Kind) -> Callable[[typer.Context, str], list[str]]:
    """A completion of the names of objects of these kinds, for the cluster that the options before it choose."""

    def completed(ctx: typer.Context, incomplete: str) -> list[str]:
        return sorted(name for name in _known(ctx.params, kinds) if name.startswith(incomplete))

    return completed


def _known(options: dict[str, Any], kinds: tuple[Kind, ...]) -> set[str]:
    try:
        with connect(options.get("coordinator"), Path(options.get("data_dir") or DEFAULT_DATA_DIR)) as api:
            return {str(document["name"]) for kind in kinds for document in _listing(api, kind)}
    except DsmsError:
        return set()


def _listing(api: ApiClient, kind: Kind) -> list[dict[str, Any]]:
    listings: dict[Kind, Callable[[], list[dict[str, Any]]]] = {
        "sources": api.sources,
        "streams": api.streams,
        "queries": api.queries,
    }
    return listings[kind]()
