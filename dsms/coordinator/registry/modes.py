"""Modes of subjects: whether schemas are registered under ids that clients give, under new ids, or not at all.

As in Confluent's registry, IMPORT is for schemas from another registry that keep their ids, since records refer to the
ids. A subject in mode IMPORT accepts no schema without an id, and compatibility is not checked.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

Mode = Literal["READWRITE", "IMPORT", "READONLY"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
LARGEST_ID: Final = 2**31 - 1


def mode_named(text: str) -> Mode | None:
    """The mode with this name, in upper or lower case; None if it does not exist.

    >>> mode_named("import"), mode_named("x")
    ('IMPORT', None)
    """
    return next((mode for mode in MODES if mode == text.upper()), None)


def mode_violation(mode: Mode, subject: str, schema_id: int | None) -> str | None:
    """Why a subject in this mode does not accept a schema with this id, or without one; None if it does.

    >>> mode_violation("READWRITE", "s", 9)
    'subject "s" is not in import mode'
    >>> mode_violation("IMPORT", "s", None), mode_violation("READONLY", "s", None), mode_violation("IMPORT", "s", 9)
    ('subject "s" is in import mode: a schema needs an id', 'subject "s" is in read-only mode', None)
    """
    if mode == "READONLY":
        return f'subject "{subject}" is in read-only mode'
    if mode == "IMPORT" and schema_id is None:
        return f'subject "{subject}" is in import mode: a schema needs an id'
    if mode == "READWRITE" and schema_id is not None:
        return f'subject "{subject}" is not in import mode'
    return None
