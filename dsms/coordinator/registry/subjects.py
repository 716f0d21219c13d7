"""A schema registry as a state machine: calls decide, only logged events change the state. The log is authoritative."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from connectors.formats.protobuf_schema import references_of
from dsms.coordinator.registry import schema_types
from dsms.coordinator.registry.compatibility import LEVELS, Level, incompatibilities
from dsms.coordinator.registry.modes import LARGEST_ID, MODES, Mode, mode_named, mode_violation
from dsms.coordinator.registry.state import Event, RegistryState, Version
from dsms.model.limits import NO_LIMITS, Limits
from operators.core.errors import UserError


class RegistryError(UserError):
    """An error with a code that Confluent clients know; its first three digits are the HTTP status.

    >>> RegistryError(40401, 'subject "s" not found').status
    404
    """

    def __init__(self, code: int, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.status = int(str(code)[:3])


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A registered schema: subject, version, id and the text of its document."""

    subject: str
    version: int
    id: int
    schema: str


class SchemaRegistry:
    """The calls of clients to the registry. Each call that writes passes one event to `log`, then applies it.

    Only one call writes at a time, so `log` gets the events in the order of their decisions; it may call `apply`
    itself.

    >>> registry = SchemaRegistry()
    >>> registry.register("a-value", '"int"'), registry.register("b-value", ' "int" ')
    (1, 1)
    >>> registry.subjects()
    ['a-value', 'b-value']
    """

    def __init__(self, log: Callable[[Event], None] = lambda event: None, limits: Limits = NO_LIMITS) -> None:
        self._log, self._limits = log, limits
        self._writing = Lock()
        self._applying = Lock()
        self.state = RegistryState()

    def apply(self, event: Event) -> None:
        """Applies an event read from the log; applying it again changes nothing."""
        with self._applying:
            self.state = self.state.applied(event)

    def register(self, subject: str, schema_text: str) -> int:
        """Registers a schema as a new version, unless the subject has it, and returns its id. Equal schemas have the
        same id under all subjects."""
        text, key = self._checked(schema_text)
        with self._writing:
            existing = self._find(subject, key)
            if existing is not None:
                return existing.schema_id
            self._refuse_deleted_references(text)
            self._refuse_incompatible(subject, text)
            schema_id = self._id_of(key) or self.state.next_id()
            number = max((v.number for v in self.state.subjects.get(subject, ())), default=0) + 1
            stored = self.state.schemas.get(schema_id, text)
            self._commit({"event": "schema", "subject": subject, "version": number, "id": schema_id, "schema": stored})
            return schema_id

    def submit(self, subject: str, schema_text: str, schema_id: int | None = None, version: int | None = None) -> int:
        """Registers a schema as the mode of the subject allows, and returns its id. In mode IMPORT the schema gets the
        given id, and the given version if there is one; other modes accept no id. Raises RegistryError 42205 if the
        mode does not permit the call.

        >>> registry = SchemaRegistry()
        >>> registry.set_mode("IMPORT", "s")
        'IMPORT'
        >>> registry.submit("s", '"int"', 9999), registry.by_id(9999), registry.register("t", '"string"')
        (9999, '"int"', 10000)
        """
        if (reason := mode_violation(self.mode_of(subject), subject, schema_id)) is not None:
            raise RegistryError(42205, reason, hint="an administrator can change the mode: PUT /mode/SUBJECT")
        if schema_id is None:
            return self.register(subject, schema_text)
        if not 1 <= schema_id <= LARGEST_ID:
            raise RegistryError(42205, f"schema id {schema_id} is out of range", hint=f"from 1 to {LARGEST_ID}")
        text, key = self._checked(schema_text)
        with self._writing:
            self._import(subject, (text, key), schema_id, version)
        return schema_id

    def _import(self, subject: str, schema: tuple[str, str], schema_id: int, version: int | None) -> None:
        """Registers a schema, given by its text and identity, under an id that no other schema has."""
        text, key = schema
        versions = self.state.subjects.get(subject, ())
        known = self.state.schemas.get(schema_id)
        if known is not None and _identity(known) != key:
            raise RegistryError(42205, f"schema id {schema_id} already belongs to another schema")
        if any(v.schema_id == schema_id and not v.deleted and version in (None, v.number) for v in versions):
            return
        number = version or max((v.number for v in versions), default=0) + 1
        if number < 1 or any(v.number == number for v in versions):
            raise RegistryError(42205, f'version {number} of subject "{subject}" is invalid or taken')
        self._refuse_deleted_references(text)
        stored = known if known is not None else text
        self._commit({"event": "schema", "subject": subject, "version": number, "id": schema_id, "schema": stored})

    def mode_of(self, subject: str) -> Mode:
        """The mode that applies to a subject: its own, or the global one."""
        return self.state.modes.get(subject, self.state.mode)

    def mode(self, subject: str | None = None) -> Mode | None:
        """The global mode; of a subject its own mode, None if none was set."""
        return self.state.mode if subject is None else self.state.modes.get(subject)

    def set_mode(self, name: str, subject: str | None = None, *, force: bool = False) -> Mode:
        """Sets the mode, global or of one subject. IMPORT needs `force` if there are schemas already."""
        mode = mode_named(name)
        if mode is None:
            raise RegistryError(42204, f'mode "{name}" unknown', hint=f"have: {', '.join(MODES)}")
        there = self.subjects() if subject is None else [subject] if subject in self.subjects() else []
        if mode == "IMPORT" and there and not force:
            raise RegistryError(
                42205, f'subject "{there[0]}" has schemas', hint="add ?force=true to import in addition to them"
            )
        self._write({"event": "mode", "subject": subject, "mode": mode})
        return mode

    def reset_mode(self, subject: str | None = None) -> Mode:
        """Resets a subject to the global mode, or the global mode to READWRITE; returns the previous mode."""
        old = self.mode(subject)
        if old is None:
            raise RegistryError(40409, f'subject "{subject}" has no mode of its own')
        self._write({"event": "mode", "subject": subject, "mode": None})
        return old

    def lookup(self, subject: str, schema_text: str, *, deleted: bool = False) -> RegisteredSchema:
        """The version of the subject that has the schema. Raises RegistryError 40403 if no version has it."""
        _, key = self._checked(schema_text)
        self._versions(subject, deleted=deleted)
        match = self._find(subject, key, deleted=deleted)
        if match is None:
            raise RegistryError(40403, f'schema not found under subject "{subject}"')
        return self._registered(subject, match)

    def by_id(self, schema_id: int) -> str:
        """The text of a schema. It stays readable after deletion, because records in logs still refer to it."""
        text = self.state.schemas.get(schema_id)
        if text is None:
            raise RegistryError(40403, f'schema id "{schema_id}" not found')
        return text

    def uses(self, schema_id: int, *, deleted: bool = False) -> list[tuple[str, int]]:
        """The (subject, version) pairs of a schema id."""
        self.by_id(schema_id)
        return [
            (subject, v.number)
            for subject, versions in sorted(self.state.subjects.items())
            for v in versions
            if v.schema_id == schema_id and (deleted or not v.deleted)
        ]

    def subjects(self, *, deleted: bool = False) -> list[str]:
        """The names of the subjects; fully deleted ones only with `deleted`."""
        return sorted(
            s for s, versions in self.state.subjects.items() if deleted or not all(v.deleted for v in versions)
        )

    def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        """The version numbers of a subject, ascending."""
        return [v.number for v in self._versions(subject, deleted=deleted)]

    def version(self, subject: str, version: str | int, *, deleted: bool = False) -> RegisteredSchema:
        """One version of a subject; "latest" or -1 is the highest."""
        return self._registered(subject, self._version(subject, version, deleted=deleted))

    def document(self, subject: str, version: int) -> dict[str, Any]:
        """The document of a version of a subject, deleted or not."""
        document: dict[str, Any] = json.loads(self.version(subject, version, deleted=True).schema)
        return document

    def referring(self, subject: str, version: str | int) -> list[int]:
        """The ids of the schemas that refer to a version, ascending."""
        return self._referring(subject, {self._version(subject, version, deleted=True).number})

    def _referring(self, subject: str, numbers: set[int]) -> list[int]:
        wanted = {(subject, number) for number in numbers}
        referring = ((id_, text) for id_, text in sorted(self.state.schemas.items()) if '"references"' in text)
        return [id_ for id_, text in referring if wanted.intersection(references_of(json.loads(text)))]

    def compatibility(self, subject: str | None = None) -> Level | None:
        """The global level; of a subject its own level, None if none was set."""
        return self.state.level if subject is None else self.state.levels.get(subject)

    def set_compatibility(self, level: str, subject: str | None = None) -> Level:
        """Sets the level, global or of one subject."""
        for known in LEVELS:
            if level.upper() == known:
                self._write({"event": "config", "subject": subject, "compatibility": known})
                return known
        raise RegistryError(42203, f'compatibility level "{level}" unknown', hint=f"have: {', '.join(LEVELS)}")

    def reset_compatibility(self, subject: str | None = None) -> Level:
        """Resets a subject to the global level, or the global level to BACKWARD; returns the previous level."""
        old = self.state.level if subject is None else self.state.levels.get(subject)
        if old is None:
            raise RegistryError(40408, f'subject "{subject}" has no compatibility level of its own')
        self._write({"event": "config", "subject": subject, "compatibility": None})
        return old

    def check(self, subject: str, schema_text: str, version: str | int | None = None) -> list[str]:
        """The reasons why the schema may not follow that version (None: the versions that the subject's level compares
        with); empty if it may. A missing version is an error. Without a version, a missing subject is compatible."""
        text, _ = self._checked(schema_text)
        earlier = self._texts(subject) if version is None else [self.version(subject, version).schema]
        return incompatibilities(self._level(subject), schema_types.unreadable, text, earlier)

    def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Marks all versions as deleted; with `permanent`, removes versions that are already marked. Returns their
        numbers."""
        with self._writing:
            versions = self._versions(subject, deleted=permanent)
            if permanent and not all(v.deleted for v in versions):
                raise RegistryError(40405, f'subject "{subject}" was not deleted', hint="delete it softly first")
            numbers = [v.number for v in versions]
            self._refuse_referenced(subject, numbers)
            self._commit({"event": "delete", "subject": subject, "versions": numbers, "permanent": permanent})
            return numbers

    def delete_version(self, subject: str, version: str | int, *, permanent: bool = False) -> int:
        """Marks one version as deleted; with `permanent`, removes a version that is already marked. Returns its
        number."""
        with self._writing:
            wanted = self._version(subject, version, deleted=permanent)
            if permanent and not wanted.deleted:
                raise RegistryError(
                    40407,
                    f'version "{wanted.number}" of subject "{subject}" was not deleted',
                    hint="delete it softly first",
                )
            self._refuse_referenced(subject, [wanted.number])
            self._commit({"event": "delete", "subject": subject, "versions": [wanted.number], "permanent": permanent})
            return wanted.number

    def _checked(self, text: str) -> tuple[str, str]:
        """The compact text of a schema and its identity. Raises RegistryError 42201 if it is not valid."""
        try:
            return schema_types.checked(text, self._limits, self.document), _identity(text)
        except RegistryError:
            raise
        except UserError as error:
            raise RegistryError(42201, error.message, hint=error.hint) from error

    def _write(self, event: Event) -> None:
        with self._writing:
            self._commit(event)

    def _commit(self, event: Event) -> None:
        self._log(event)
        self.apply(event)

    def _level(self, subject: str) -> Level:
        return self.state.levels.get(subject, self.state.level)

    def _texts(self, subject: str) -> list[str]:
        return [self.state.schemas[v.schema_id] for v in self.state.subjects.get(subject, ()) if not v.deleted]

    def _refuse_incompatible(self, subject: str, text: str) -> None:
        level, earlier = self._level(subject), self._texts(subject)
        problems = incompatibilities(level, schema_types.unreadable, text, earlier)
        if problems:
            raise RegistryError(
                409, f'schema is incompatible with an earlier one of subject "{subject}"', hint="; ".join(problems)
            )

    def _refuse_referenced(self, subject: str, numbers: Sequence[int]) -> None:
        """Refuses to delete versions that other schemas import: the schemas of records have to stay readable."""
        if referring := self._referring(subject, set(numbers)):
            ids = ", ".join(map(str, referring))
            raise RegistryError(42206, f'subject "{subject}" cannot be deleted: schemas refer to it: {ids}')

    def _refuse_deleted_references(self, text: str) -> None:
        """Refuses a schema that imports a deleted version: once that version is deleted permanently, nobody could read
        the schema any more."""
        for subject, number in references_of(json.loads(text)):
            self.version(subject, number)

    def _id_of(self, key: str) -> int | None:
        return next((schema_id for schema_id, text in self.state.schemas.items() if _identity(text) == key), None)

    def _find(self, subject: str, key: str, *, deleted: bool = False) -> Version | None:
        versions = self.state.subjects.get(subject, ())
        return next(
            (
                v
                for v in reversed(versions)
                if (deleted or not v.deleted) and _identity(self.state.schemas[v.schema_id]) == key
            ),
            None,
        )

    def _versions(self, subject: str, *, deleted: bool) -> list[Version]:
        versions = [v for v in self.state.subjects.get(subject, ()) if deleted or not v.deleted]
        if not versions:
            raise RegistryError(40401, f'subject "{subject}" not found')
        return versions

    def _version(self, subject: str, version: str | int, *, deleted: bool) -> Version:
        versions = self._versions(subject, deleted=deleted)
        number = _version_number(version)
        if number is None:
            return versions[-1]
        for candidate in versions:
            if candidate.number == number:
                return candidate
        raise RegistryError(
            40402, f'version "{number}" not found', hint=f"have: {', '.join(str(v.number) for v in versions)}"
        )

    def _registered(self, subject: str, version: Version) -> RegisteredSchema:
        return RegisteredSchema(subject, version.number, version.schema_id, self.state.schemas[version.schema_id])


def _version_number(version: str | int) -> int | None:
    """The number, or None for the latest."""
    if str(version) in ("latest", "-1"):
        return None
    if not str(version).isdecimal() or int(version) == 0:
        raise RegistryError(42202, f'version "{version}" is not a version', hint='a number from 1, or "latest"')
    return int(version)


def _identity(text: str) -> str:
    """The identity of a schema: equal for schemas that differ only in spacing and in the order of attributes."""
    return json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
