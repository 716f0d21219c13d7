"""What people want to know of a cluster: its executors, what its fragments and queries do, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dsms.client.documents import Document
from dsms.model.sizes import format_size


def summary(status: Mapping[str, Any]) -> dict[str, list[Document]]:
    """The tables of `dsms status`, by title, without empty ones; `status` is the answer to GET /v1/status.

    >>> executor = {"state": "running", "epoch": 7, "fragments": {"0": "running"}}
    >>> found = summary({"executors": {"e1": executor}, "lag": {"q": 0, "r": 12}})
    >>> found["fragments"], found["queries with unread records"]
    ([{'fragment': '0', 'executor': 'e1', 'state': 'running'}], [{'query': 'r', 'unread': 12}])
    """
    executors = sorted(status.get("executors", {}).items())
    tables = {
        "executors": [_executor(name, each) for name, each in executors],
        "fragments": [line for name, each in executors for line in _fragments(name, each)],
        "records that wait": [line for name, each in executors for line in _waiting(name, each)],
        "checkpoints that fail": [line for name, each in executors for line in _failing(name, each)],
        "queries with unread records": [*_unread(status)],
        "alarms": list(status.get("alarms", ())),
    }
    return {title: lines for title, lines in tables.items() if lines}


def _executor(name: str, executor: Mapping[str, Any]) -> Document:
    sizes = {"in Redis": executor.get("redis_bytes"), "on disk": executor.get("disk_bytes")}
    shown = {title: None if size is None else format_size(size) for title, size in sizes.items()}
    reason = {"reason": executor["reason"]} if executor.get("reason") else {}
    return {"executor": name, "state": executor.get("state"), "epoch": executor.get("epoch"), **shown, **reason}


def _fragments(name: str, executor: Mapping[str, Any]) -> Iterator[Document]:
    for fragment, state in sorted(executor.get("fragments", {}).items()):
        yield {"fragment": fragment, "executor": name, "state": state}


def _waiting(name: str, executor: Mapping[str, Any]) -> Iterator[Document]:
    for source, reason in sorted(executor.get("waits", {}).items()):
        yield {"source": source, "executor": name, "reason": reason}


def _failing(name: str, executor: Mapping[str, Any]) -> Iterator[Document]:
    for fragment, made in sorted(executor.get("checkpoints", {}).items()):
        if made.get("error"):
            yield {"fragment": fragment, "executor": name, "reason": made["error"]}


def _unread(status: Mapping[str, Any]) -> Iterator[Document]:
    """The queries that have not read all records, those with the most unread ones first."""
    progress = status.get("progress", {})
    for name, unread in sorted(status.get("lag", {}).items(), key=lambda each: -each[1]):
        if unread:
            known = progress.get(name, {})
            left = {"percent": "percent", "records_per_second": "records/s", "seconds_left": "seconds left"}
            yield {"query": name, "unread": unread} | {left[key]: known[key] for key in left if key in known}
