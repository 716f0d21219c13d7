"""Reads Iceberg and Delta tables with DuckDB. Which files belong to a table is read from its metadata here, not by the
libraries that wrote it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import duckdb
import fastavro

_DELETED = 2


def iceberg_snapshots(directory: Path, name: str, copied: Path | None = None) -> list[dict[str, Any]]:
    """The snapshots of a table, the current one last; none if there is no table. The catalog is the sqlite database of
    the directory. `copied` has the objects of a table in an object store, below the names of their buckets.
    """
    namespace, _, table = name.rpartition(".")
    metadata = _metadata(directory, namespace, table, copied)
    if metadata is None or metadata.get("current-snapshot-id") in (None, -1):
        return []
    current = metadata["current-snapshot-id"]
    return sorted(metadata["snapshots"], key=lambda each: (each["snapshot-id"] == current, each["timestamp-ms"]))


def iceberg_files(directory: Path, name: str, copied: Path | None = None) -> list[str]:
    """The data files of the current snapshot."""
    snapshots = iceberg_snapshots(directory, name, copied)
    if not snapshots:
        return []
    files = []
    for manifest in manifests(snapshots[-1], copied):
        assert manifest["content"] == 0, "only data files are written"
        entries = _avro(manifest["manifest_path"], copied)
        files += [entry["data_file"]["file_path"] for entry in entries if entry["status"] != _DELETED]
    return [_path(file, copied) for file in files]


def manifests(snapshot: dict[str, Any], copied: Path | None = None) -> list[dict[str, Any]]:
    """The manifests of a snapshot."""
    return _avro(snapshot["manifest-list"], copied)


def delta_commits(directory: Path) -> list[list[dict[str, Any]]]:
    """The actions of each commit, in the order of the versions."""
    log = sorted((directory / "_delta_log").glob("*.json"))
    return [[json.loads(line) for line in file.read_text().splitlines()] for file in log]


def delta_files(directory: Path) -> list[str]:
    """The data files of the current version."""
    files: dict[str, None] = {}
    for actions in delta_commits(directory):
        for action in actions:
            if "remove" in action:
                files.pop(action["remove"]["path"], None)
            if "add" in action:
                files[action["add"]["path"]] = None
    return [str(directory / unquote(path)) for path in files]


def rows(files: Sequence[str], columns: str = "*") -> list[tuple[Any, ...]]:
    """The rows of Parquet files, sorted."""
    if not files:
        return []
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT {columns} FROM read_parquet($files)", {"files": list(files)}).fetchall()
    return sorted(found, key=str)


def _metadata(directory: Path, namespace: str, table: str, copied: Path | None) -> dict[str, Any] | None:
    if not (directory / "catalog.db").exists():
        return None
    connection = sqlite3.connect(directory / "catalog.db", timeout=30)
    try:
        query = "SELECT metadata_location FROM iceberg_tables WHERE table_namespace = ? AND table_name = ?"
        found = connection.execute(query, (namespace, table)).fetchone()
    except sqlite3.OperationalError:  # the catalog has no tables yet
        return None
    finally:
        connection.close()
    return json.loads(Path(_path(found[0], copied)).read_text()) if found else None


def _avro(location: str, copied: Path | None) -> list[dict[str, Any]]:
    with open(_path(location, copied), "rb") as file:
        return list(fastavro.reader(file))


def _path(location: str, copied: Path | None) -> str:
    parts = urlsplit(location)
    return unquote(parts.path) if copied is None else f"{copied}/{parts.netloc}{parts.path}"
