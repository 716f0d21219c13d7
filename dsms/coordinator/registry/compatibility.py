"""Decides whether a schema may follow the earlier schemas of a subject."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, get_args

Level = Literal["NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE"]
LEVELS: tuple[Level, ...] = get_args(Level)
#: Returns why data of the second schema (the writer's) cannot be read with the first (the reader's); empty if it can.
Unreadable = Callable[[str, str], list[str]]


def incompatibilities(level: Level, unreadable: Unreadable, candidate: str, previous: Iterable[str]) -> list[str]:
    """The reasons why the candidate may not follow the previous schemas (oldest first) at this level; empty if it may.

    BACKWARD: the candidate reads data of the older schema; FORWARD: the older schema reads data of the candidate;
    FULL: both. The plain levels compare with the latest schema only, the transitive ones with all.

    >>> from dsms.coordinator.registry.avro_compatibility import unreadable
    >>> incompatibilities("BACKWARD", unreadable, '"long"', ['"string"', '"int"'])
    []
    >>> len(incompatibilities("BACKWARD_TRANSITIVE", unreadable, '"long"', ['"string"', '"int"']))
    1
    """
    if level == "NONE":
        return []
    compared = list(previous)
    if not level.endswith("_TRANSITIVE"):
        compared = compared[-1:]
    problems: list[str] = []
    for other in compared:
        if not level.startswith("FORWARD"):
            problems += [f"new schema cannot read old data: {reason}" for reason in unreadable(candidate, other)]
        if not level.startswith("BACKWARD"):
            problems += [f"old schema cannot read new data: {reason}" for reason in unreadable(other, candidate)]
    return problems
