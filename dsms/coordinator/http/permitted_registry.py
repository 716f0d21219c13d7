"""The schema registry as one caller may use it: rights on a subject are the rights on its topic."""

from __future__ import annotations

from dataclasses import dataclass

from dsms.coordinator.registry.compatibility import Level
from dsms.coordinator.registry.modes import Mode
from dsms.coordinator.registry.schema_types import referred_subjects
from dsms.coordinator.registry.subjects import RegisteredSchema, SchemaRegistry
from dsms.model.principal import Forbidden, Principal


def topic_of(subject: str) -> str:
    """The topic whose records a subject describes. A subject with another form of name is treated as a topic.

    >>> topic_of("orders-value"), topic_of("orders-key"), topic_of("Order")
    ('orders', 'orders', 'Order')
    """
    return subject.removesuffix("-value") if subject.endswith("-value") else subject.removesuffix("-key")


@dataclass(frozen=True)
class PermittedRegistry:
    """The calls of `SchemaRegistry`, on behalf of one caller."""

    registry: SchemaRegistry
    principal: Principal

    def register(self, subject: str, schema_text: str, schema_id: int | None = None, version: int | None = None) -> int:
        """Registers a schema under a subject that the caller may write, and returns its id. In mode IMPORT the id can
        be given: it is new, or the id of a schema that the caller may read."""
        self._check_write(subject)
        self._check_references(schema_text)
        if schema_id is not None and schema_id in self.registry.state.schemas:
            self.by_id(schema_id)
        return self.registry.submit(subject, schema_text, schema_id, version)

    def mode(self, subject: str | None = None) -> Mode | None:
        """The mode of a subject, or the global mode."""
        if subject is not None:
            self._check_read(subject)
        return self.registry.mode(subject)

    def set_mode(self, name: str, subject: str | None = None, *, force: bool = False) -> Mode:
        """Sets the mode of a subject, or the global mode."""
        self._check_write(subject)
        return self.registry.set_mode(name, subject, force=force)

    def reset_mode(self, subject: str | None = None) -> Mode:
        """Resets the mode of a subject, or the global mode."""
        self._check_write(subject)
        return self.registry.reset_mode(subject)

    def lookup(self, subject: str, schema_text: str, *, deleted: bool = False) -> RegisteredSchema:
        """The version of the subject that has this schema."""
        self._check_read(subject)
        self._check_references(schema_text)
        return self.registry.lookup(subject, schema_text, deleted=deleted)

    def by_id(self, schema_id: int) -> str:
        """The text of a schema. Raises Forbidden if the caller may read no subject that has it."""
        text = self.registry.by_id(schema_id)
        if not self._may_read_schema(schema_id):
            raise Forbidden(f'token "{self.principal.name}" may not read schema {schema_id}')
        return text

    def uses(self, schema_id: int, *, deleted: bool = False) -> list[tuple[str, int]]:
        """The subjects, with versions, that have a schema and that the caller may read."""
        uses = self.registry.uses(schema_id, deleted=deleted)
        return [(subject, version) for subject, version in uses if self._may_read(subject)]

    def subjects(self, *, deleted: bool = False) -> list[str]:
        """The subjects that the caller may read."""
        return [subject for subject in self.registry.subjects(deleted=deleted) if self._may_read(subject)]

    def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        """The versions of a subject."""
        self._check_read(subject)
        return self.registry.versions(subject, deleted=deleted)

    def version(self, subject: str, version: str | int, *, deleted: bool = False) -> RegisteredSchema:
        """A version of a subject."""
        self._check_read(subject)
        return self.registry.version(subject, version, deleted=deleted)

    def referring(self, subject: str, version: str | int) -> list[int]:
        """The ids of the schemas that refer to a version."""
        self._check_read(subject)
        return [id_ for id_ in self.registry.referring(subject, version) if self._may_read_schema(id_)]

    def compatibility(self, subject: str | None = None) -> Level | None:
        """The compatibility level of a subject, or the global one."""
        if subject is not None:
            self._check_read(subject)
        return self.registry.compatibility(subject)

    def set_compatibility(self, level: str, subject: str | None = None) -> Level:
        """Sets the compatibility level of a subject, or the global one."""
        self._check_write(subject)
        return self.registry.set_compatibility(level, subject)

    def reset_compatibility(self, subject: str | None = None) -> Level:
        """Resets the compatibility level of a subject, or the global one."""
        self._check_write(subject)
        return self.registry.reset_compatibility(subject)

    def check(self, subject: str, schema_text: str, version: str | int | None = None) -> list[str]:
        """The reasons why a schema is not compatible with a subject."""
        self._check_read(subject)
        self._check_references(schema_text)
        return self.registry.check(subject, schema_text, version)

    def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Deletes a subject."""
        self._check_write(subject)
        return self.registry.delete_subject(subject, permanent=permanent)

    def delete_version(self, subject: str, version: str | int, *, permanent: bool = False) -> int:
        """Deletes a version of a subject."""
        self._check_write(subject)
        return self.registry.delete_version(subject, version, permanent=permanent)

    def _may_read_schema(self, schema_id: int) -> bool:
        return not self.principal.restricted or bool(self.uses(schema_id, deleted=True))

    def _check_references(self, schema_text: str) -> None:
        """Checks the right to read the subjects that a schema imports: whether the import succeeds would reveal their
        content."""
        if self.principal.restricted:
            for subject in referred_subjects(schema_text):
                self._check_read(subject)

    def _may_read(self, subject: str) -> bool:
        return self.principal.may_read_topic(topic_of(subject))

    def _check_read(self, subject: str) -> None:
        self.principal.check_read_topic(topic_of(subject))

    def _check_write(self, subject: str | None) -> None:
        """Checks the right to write a subject; a global setting needs the right to write all topics."""
        self.principal.check_write_topic("*" if subject is None else topic_of(subject))
