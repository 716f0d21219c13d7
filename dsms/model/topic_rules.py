"""Checks which topics statements may name. Kafka's rules for topic names are checked before anything is created.

Only the system writes reserved topics: the internal topics of any cluster (`_dsms.…`), Kafka's own (`__…`), topics of
dead letters, result topics of queries, and logs of tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from dsms.model.catalog import Catalog
from dsms.model.dead_letters import dead_letter_topic
from dsms.model.objects import Object, Query, Source, Table, kind_of
from dsms.model.principal import Forbidden, Principal
from dsms.model.roles import allows
from dsms.model.statements import Name
from operators.core.errors import UserError

#: Kafka's own limit.
_LONGEST_TOPIC = 249
_TOPIC = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)
#: The limit for names of objects, because topic names contain them, such as `dsms.NAME.dead-letters`.
LONGEST_NAME: Final = 200
_INTERNAL = ("_dsms.", "__")
_DEAD_LETTERS = re.compile(r"dsms\..+\.dead-letters")
_SUBJECT_SUFFIXES = ("-key", "-value")
_OPEN_HINT = "an administrator can open it for reading with DSMS_OPEN_TOPICS"


@dataclass(frozen=True)
class TopicRules:
    """The rules of a cluster. `opened` are patterns (`*`, `?`) of reserved topics that sources may read.

    >>> may_read = lambda name: True
    >>> TopicRules().check_source("_dsms.main.catalog", Catalog(), may_read)
    Traceback (most recent call last):
    ...
    operators.core.errors.UserError: topic "_dsms.main.catalog" is reserved: it is an internal topic; an administrator \
can open it for reading with DSMS_OPEN_TOPICS
    >>> TopicRules(("_dsms.main.*",)).check_source("_dsms.main.catalog", Catalog(), may_read)
    """

    opened: tuple[str, ...] = ()

    def check_source(self, topic: str, catalog: Catalog, may_read: Callable[[str], bool]) -> None:
        """Raises UserError if no source may read the topic. The message names only objects that the caller may read."""
        check_topic(topic)
        reason = _reserved_by_name(topic) or _reserved_by_object(topic, catalog, may_read)
        if reason and not any(fnmatchcase(topic, pattern) for pattern in self.opened):
            raise UserError(f'topic "{topic}" is reserved: it {reason}', hint=_OPEN_HINT)

    def check_subject(self, subject: str, catalog: Catalog, may_read: Callable[[str], bool]) -> None:
        """Raises UserError if a subject of the schema registry is reserved or too long. The message names only objects
        that the caller may read.
        """
        end = next((end for end in _SUBJECT_SUFFIXES if subject.endswith(end)), "")
        topic = subject.removesuffix(end)
        if len(topic) > _LONGEST_TOPIC:
            raise UserError(
                f"a subject has {len(subject)} characters", hint=f"a topic has at most {_LONGEST_TOPIC} characters"
            )
        if reason := _reserved_by_name(topic) or _reserved_by_object(topic, catalog, may_read):
            raise UserError(f'subject "{subject}" is reserved: topic "{topic}" {reason}', hint="choose another subject")


def check_topic(topic: str) -> None:
    """Raises UserError if Kafka does not accept the name.

    >>> check_topic("rooms/1")
    Traceback (most recent call last):
    ...
    operators.core.errors.UserError: "rooms/1" is not a valid topic name; use letters, digits, '.', '_' and '-', and \
at most 249 of them
    """
    if not _TOPIC.fullmatch(topic) or len(topic) > _LONGEST_TOPIC or topic in (".", ".."):
        raise UserError(
            f'"{_shortened(topic)}" is not a valid topic name',
            hint=f"use letters, digits, '.', '_' and '-', and at most {_LONGEST_TOPIC} of them",
        )


def check_result(topic: str, catalog: Catalog, may_read: Callable[[str], bool]) -> None:
    """Raises UserError if no new query or table may write the topic, because it is reserved or belongs to an object.
    The message names only objects that the caller may read.
    """
    check_topic(topic)
    if reason := _reserved_by_name(topic):
        raise UserError(f'topic "{topic}" is reserved: it {reason}', hint="choose another topic")
    for other in catalog.objects.values():
        if not _is_over_clock(other) and getattr(other, "topic", None) == topic:
            raise UserError(
                f'topic "{topic}" already belongs to {_named(other, may_read)}', hint="choose another topic"
            )


def check_dead_letters(source: str, catalog: Catalog, may_read: Callable[[str], bool]) -> None:
    """Raises UserError if a new source of this name cannot have its topic of dead letters: a renamed source has kept
    it. The message names only objects that the caller may read."""
    topic = dead_letter_topic(source)
    check_topic(topic)
    if reason := _reserved_by_object(topic, catalog, may_read):
        raise UserError(f'topic "{topic}" {reason}, which was renamed', hint="choose another name for the source")


def check_published(topic: str, catalog: Catalog, principal: Principal, *, forced: bool = False) -> None:
    """Raises UserError if only the system writes the topic, and Forbidden if the caller may not write it. With
    `forced`, an administrator may write to a topic of the system, to repair it.

    >>> ann = Principal("ann", "writer")
    >>> check_published("readings", Catalog(), ann)
    >>> check_published("_dsms.main.progress", Catalog(), ann)
    Traceback (most recent call last):
    ...
    operators.core.errors.UserError: topic "_dsms.main.progress" is reserved: it is an internal topic, and only the \
system writes it; publish to the topic of a source
    """
    principal.check_write_topic(topic)
    check_topic(topic)
    reason = _reserved_by_name(topic) or _reserved_by_object(topic, catalog, principal.may_read)
    if not reason or (forced and allows(principal.role, "administrator")):
        return
    if forced:
        raise Forbidden(f'topic "{topic}" is reserved: it {reason}', hint="only an administrator may force records")
    raise UserError(
        f'topic "{topic}" is reserved: it {reason}, and only the system writes it',
        hint="publish to the topic of a source",
    )


def check_name(name: Name) -> None:
    """Raises SqlError if the name of an object is too long."""
    if len(name.text) > LONGEST_NAME:
        raise name.place.error(
            f'the name "{_shortened(name.text)}" has {len(name.text)} characters',
            f"a name has at most {LONGEST_NAME} characters",
        )


def _reserved_by_name(topic: str) -> str:
    """The reason, as a verb phrase, if a topic is reserved because of its name; else ""."""
    if topic.startswith(_INTERNAL):
        return "is an internal topic"
    return "holds dead letters" if _DEAD_LETTERS.fullmatch(topic) else ""


def _reserved_by_object(topic: str, catalog: Catalog, may_read: Callable[[str], bool]) -> str:
    """The reason, as a verb phrase, if a topic is reserved because an object of the catalog uses it; else ""."""
    for item in catalog.objects.values():
        if isinstance(item, Query | Table) and item.topic == topic and not _is_over_clock(item):
            return f"belongs to {_named(item, may_read)}"
        if isinstance(item, Source) and item.dead_letter_topic == topic:  # the name is different in a copy of a cluster
            return f"holds the dead letters of {_named(item, may_read)}"
    return ""


def _named(item: Object, may_read: Callable[[str], bool]) -> str:
    return f'{kind_of(item)} "{item.name}"' if may_read(item.name) else f"a {kind_of(item)} that you may not read"


def _is_over_clock(item: Object | Source) -> bool:
    """Whether an object is a view over the clock, whose topic does not exist."""
    return isinstance(item, Query) and item.periodic is not None


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:60]}…"
