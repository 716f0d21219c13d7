"""The schema registry's contents as immutable data, changed only by events.

An event is a JSON document. Applying it twice has the same effect as once, so a log of events may be replayed from any
position.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeVar, cast

import msgspec

from dsms.coordinator.registry.compatibility import Level
from dsms.coordinator.registry.modes import Mode
from operators.core.decoding import Natural, decoded
from operators.core.errors import InternalError

Event = dict[str, Any]
_Setting = TypeVar("_Setting", bound=str)


def _empty() -> Mapping[Any, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Version:
    """A numbered version of a subject. A deleted version is hidden, but kept until it is deleted permanently."""

    number: int
    schema_id: int
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class RegistryState:
    """Schemas by id, versions by subject in ascending order, compatibility levels and modes. Ids are never reused.

    >>> event = {"event": "schema", "subject": "s", "version": 1, "id": 1, "schema": '"int"'}
    >>> state = RegistryState().applied(event)
    >>> state.applied(event) == state
    True
    """

    schemas: Mapping[int, str] = field(default_factory=_empty)
    subjects: Mapping[str, tuple[Version, ...]] = field(default_factory=_empty)
    levels: Mapping[str, Level] = field(default_factory=_empty)
    level: Level = "BACKWARD"
    modes: Mapping[str, Mode] = field(default_factory=_empty)
    mode: Mode = "READWRITE"

    def applied(self, event: Event) -> "RegistryState":
        """The state after the event."""
        change = _CHANGES.get(event["event"])
        if change is None:
            raise InternalError(f'registry event "{event["event"]}" unknown', hint=f"have: {', '.join(_CHANGES)}")
        return change(self, event)

    def next_id(self) -> int:
        """The id for a new schema."""
        return max(self.schemas, default=0) + 1


def _add_schema(state: RegistryState, event: Event) -> RegistryState:
    subject, version = event["subject"], Version(event["version"], event["id"])
    others = tuple(v for v in state.subjects.get(subject, ()) if v.number != version.number)
    versions = tuple(sorted((*others, version), key=lambda v: v.number))
    return replace(
        state,
        schemas={**state.schemas, event["id"]: event["schema"]},
        subjects={**state.subjects, subject: versions},
    )


def _delete_versions(state: RegistryState, event: Event) -> RegistryState:
    gone, subject = set(event["versions"]), event["subject"]
    versions = state.subjects.get(subject, ())
    if event["permanent"]:
        kept = tuple(v for v in versions if v.number not in gone)
    else:
        kept = tuple(replace(v, deleted=True) if v.number in gone else v for v in versions)
    subjects = {name: kept if name == subject else old for name, old in state.subjects.items()}
    return replace(state, subjects={name: vs for name, vs in subjects.items() if vs})


def _set_level(state: RegistryState, event: Event) -> RegistryState:
    subject, level = event["subject"], cast(Level | None, event["compatibility"])
    if subject is None:
        return replace(state, level=level or "BACKWARD")
    return replace(state, levels=_set(state.levels, subject, level))


def _set_mode(state: RegistryState, event: Event) -> RegistryState:
    subject, mode = event["subject"], cast(Mode | None, event["mode"])
    if subject is None:
        return replace(state, mode=mode or "READWRITE")
    return replace(state, modes=_set(state.modes, subject, mode))


def _set(own: Mapping[str, _Setting], subject: str, value: _Setting | None) -> dict[str, _Setting]:
    """The settings of subjects with a new value for one subject; None removes its setting."""
    others = {name: old for name, old in own.items() if name != subject}
    return {**others, subject: value} if value else others


_CHANGES = {"schema": _add_schema, "delete": _delete_versions, "config": _set_level, "mode": _set_mode}


class _Schema(msgspec.Struct, tag="schema", tag_field="event", frozen=True):
    subject: str
    version: Natural
    id: Natural
    schema: str


class _Deletion(msgspec.Struct, tag="delete", tag_field="event", frozen=True):
    subject: str
    versions: list[Natural]
    permanent: bool


class _Configuration(msgspec.Struct, tag="config", tag_field="event", frozen=True):
    subject: str | None
    compatibility: Level | None


class _ModeSet(msgspec.Struct, tag="mode", tag_field="event", frozen=True):
    subject: str | None
    mode: Mode | None


def read_event(body: bytes) -> Event:
    """An event from its JSON. Raises Malformed if it is not a valid event.

    >>> read_event(b'{"event": "config", "subject": null, "compatibility": "FULL"}')["compatibility"]
    'FULL'
    """
    said = decoded(body, _Schema | _Deletion | _Configuration | _ModeSet)
    if isinstance(said, _Schema):
        decoded(said.schema.encode(), Any)  # schemas are compared as JSON, so they have to be JSON
    event: Event = decoded(body, dict[str, Any])
    return event
