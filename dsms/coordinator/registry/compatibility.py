"""When a schema may follow others under one subject."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, get_args

Level = Literal["NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE"]
LEVELS: tuple[Level, ...] = get_args(Level)
#: Why data of a writer's schema, the second, cannot be read with a reader's, the first; empty when it can.
Unreadable = Callable[[str, str], list[str]]


def incompatibilities(level: Level, unreadable: Unreadable, candidate: str, previous: Iterable[str]) -> list[str]:
    """Why the candidate may not follow the previous schemas (oldest first) at this level; empty when it may.

    BACKWARD: the candidate reads what was written; FORWARD: the older reads what the candidate writes; FULL: both.
    The plain levels look at the latest schema only, the transitive ones at all.

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
