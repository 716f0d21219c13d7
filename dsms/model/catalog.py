"""The catalog holds all named objects as one immutable value with a version."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable

import msgspec

from dsms.model.dropped_topics import DroppedTopic
from dsms.model.names import PUBLIC, schema_prefix
from dsms.model.objects import Object, Query, Source, Stream, Table, kind_of
from dsms.model.shared_links import SharedLink
from dsms.model.sinks import KeptSink
from dsms.model.statements import TextLocation
from dsms.model.subplans import SharedSubplan, subplans_below
from dsms.model.user_defined import Aggregate, Function
from operators.core.decoding import Malformed, decoded
from operators.core.delta import MAX_SOURCES
from operators.core.errors import SqlError, UserError
from operators.core.nearest import have, nearest


class WrongName(SqlError):
    """A statement names an object that does not exist or is of another kind. The hint has other names."""

    @abstractmethod
    def with_readable_names(self, may_read: Callable[[str], bool]) -> WrongName:
        """The same error, whose hint has only names that the caller may read."""


class NotFound(WrongName):
    """A statement names an object that does not exist; the hint has close matches."""

    def __init__(self, name: str, place: TextLocation, choices: Iterable[str]) -> None:
        self._name, self._place, self._choices = name, place, tuple(choices)
        close = nearest(name, self._choices) or self._choices
        hint = have(name, close) if close else "nothing is registered yet"
        super().__init__(f'"{name}" not found', line=place.line, column=place.column, hint=hint)

    def with_readable_names(self, may_read: Callable[[str], bool]) -> NotFound:
        """The same error, whose hint has only names that the caller may read."""
        return NotFound(self._name, self._place, filter(may_read, self._choices))


class NotTable(WrongName):
    """A statement about a table names another kind of object; the hint lists the tables."""

    def __init__(self, other: Object, place: TextLocation, tables: Iterable[str]) -> None:
        self._other, self._place, self._tables = other, place, tuple(tables)
        message, hint = f'"{other.name}" is a {kind_of(other)}, not a table', ", ".join(self._tables)
        super().__init__(message, line=place.line, column=place.column, hint=f"have: {hint}" if hint else "")

    def with_readable_names(self, may_read: Callable[[str], bool]) -> NotTable:
        """The same error, whose hint has only names that the caller may read."""
        return NotTable(self._other, self._place, filter(may_read, self._tables))


class Catalog(msgspec.Struct, frozen=True):
    """Objects by lower-case name, in order of creation. Each change returns a new catalog with the next version.

    >>> Catalog().version, Catalog().get("nothing")
    (0, None)
    """

    version: int = 0
    #: The number of ids assigned so far; an id is never reused.
    ids: int = 0
    objects: dict[str, Object] = {}
    #: In a stored copy: the cluster to which the catalog belongs; "" in copies of earlier versions of dsms.
    cluster: str = ""
    #: The topics of dropped queries and tables that are not deleted yet, by topic.
    dropped_topics: dict[str, DroppedTopic] = {}
    #: By lower-case name of an object: the comments on it ("") and on its columns, by their names.
    comments: dict[str, dict[str, str]] = {}
    #: By lower-case name: the sinks, which keep results in other systems. The result of each is one of the objects.
    sinks: dict[str, KeptSink] = {}
    #: By lower-case name of an object: the columns of the indexes on it, by their names.
    indexes: dict[str, dict[str, tuple[str, ...]]] = {}
    #: The comments on the schemas besides public, by their names, which are in small letters; "" without a comment.
    schemas: dict[str, str] = {}

    def get(self, name: str) -> Object | None:
        """The object with this name, case-insensitive, or None."""
        return self.objects.get(name.lower())

    def find(self, name: str, place: TextLocation | None = None) -> Object:
        """The object with this name. Raises NotFound at `place`, with a hint that has close matches, if none exists."""
        found = self.get(name)
        if found is None:
            raise NotFound(name, place or TextLocation(), [item.name for item in self.objects.values()])
        return found

    def find_any(self, name: str, place: TextLocation | None = None) -> Object:
        """The object with this name, otherwise the aggregate or function `name()`. Raises NotFound like `find`."""
        return self.get(name) or self.get(f"{name}()") or self.find(name, place)

    def with_object(self, added: Object) -> Catalog:
        """The catalog with one more object. Raises UserError if its name is taken."""
        taken = self.get(added.name)
        if taken is not None:
            raise UserError(
                f'a {kind_of(taken)} named "{taken.name}" already exists', hint="drop it first or choose another name"
            )
        objects = {**self.objects, added.name.lower(): added}
        return self.with_objects(objects, new_ids=1)

    def without(self, names: Iterable[str]) -> Catalog:
        """The catalog without the objects of these names."""
        gone = {name.lower() for name in names}
        kept = {name: item for name, item in self.objects.items() if name not in gone}
        return self.with_objects(kept)

    def with_changed(self, *changed: Object) -> Catalog:
        """The catalog in which these objects replace those of the same names."""
        replacements = {replacement.name.lower(): replacement for replacement in changed}
        return self.with_objects({**self.objects, **replacements})

    def with_objects(self, objects: dict[str, Object], *, new_ids: int = 0) -> Catalog:
        """The next version of the catalog, with these objects instead of its own; `new_ids` ids were given to them. The
        shared links and the links of shared subplans that no query reads any more have to be deleted."""
        after = msgspec.structs.replace(self, version=self.version + 1, ids=self.ids + new_ids, objects=objects)
        if not (before := self.links()):
            return after
        read = {link.topic for link in after.links()}
        unread = [link for link in before if link.topic not in read]
        return after.with_dropped_topics(DroppedTopic(each.topic, each.id) for each in unread) if unread else after

    def result_of(self, sink: KeptSink) -> Object:
        """The view, query or table that a sink keeps."""
        return self.objects[sink.result]

    def sinks_of(self, names: Iterable[str]) -> list[KeptSink]:
        """The sinks that keep one of the objects of these names, oldest first."""
        kept = {name.lower() for name in names}
        return [sink for sink in self.sinks.values() if sink.result in kept]

    def with_sink(self, sink: KeptSink) -> Catalog:
        """The next version of the catalog, with this sink, in place of one with its name if there is one."""
        sinks = {**self.sinks, sink.name.lower(): sink}
        return msgspec.structs.replace(self, version=self.version + 1, sinks=sinks)

    def without_sinks(self, sinks: Iterable[KeptSink]) -> Catalog:
        """The next version of the catalog, without these sinks; the same catalog if there are none."""
        ended = {sink.name for sink in sinks}
        kept = {name: sink for name, sink in self.sinks.items() if sink.name not in ended}
        return msgspec.structs.replace(self, version=self.version + 1, sinks=kept) if ended else self

    def comments_on(self, name: str) -> dict[str, str]:
        """The comments on an object ("") and on its columns, by their names."""
        return self.comments.get(name.lower(), {})

    def with_comment(self, name: str, column: str, text: str | None) -> Catalog:
        """The next version of the catalog, with this comment on a column of an object, or on the object itself if
        `column` is ""; None removes the comment. The same catalog if that changes nothing."""
        before = self.comments_on(name)
        given = {} if text is None else {column: text}
        after = {key: value for key, value in before.items() if key != column} | given
        if after == before:
            return self
        others = {key: texts for key, texts in self.comments.items() if key != name.lower()}
        comments = {**others, name.lower(): dict(sorted(after.items()))} if after else others
        return msgspec.structs.replace(self, version=self.version + 1, comments=comments)

    def indexes_on(self, name: str) -> dict[str, tuple[str, ...]]:
        """The columns of the indexes on an object, by their names."""
        return self.indexes.get(name.lower(), {})

    def with_indexes(self, name: str, indexes: dict[str, tuple[str, ...]]) -> Catalog:
        """The next version of the catalog, with these indexes on an object."""
        others = {key: each for key, each in self.indexes.items() if key != name.lower()}
        after = {**others, name.lower(): indexes} if indexes else others
        return msgspec.structs.replace(self, version=self.version + 1, indexes=after)

    def with_schemas(self, schemas: dict[str, str]) -> Catalog:
        """The next version of the catalog, with these schemas."""
        return msgspec.structs.replace(self, version=self.version + 1, schemas=schemas)

    def schema_of(self, name: str) -> str:
        """The schema to which a full name belongs.

        >>> Catalog(schemas={"sales": ""}).schema_of("sales.orders"), Catalog().schema_of("a.b")
        ('sales', 'public')
        """
        prefix = schema_prefix(name)
        return prefix if prefix in self.schemas else PUBLIC

    def without_comments_and_indexes(self, names: Iterable[str]) -> Catalog:
        """The same version of the catalog, without the comments and indexes on the objects of these names."""
        gone = {name.lower() for name in names}
        kept = {name: texts for name, texts in self.comments.items() if name not in gone}
        indexes = {name: each for name, each in self.indexes.items() if name not in gone}
        return msgspec.structs.replace(self, comments=kept, indexes=indexes)

    def with_dropped_topics(self, dropped: Iterable[DroppedTopic]) -> Catalog:
        """The same version of the catalog, in which these topics have to be deleted too."""
        topics = {**self.dropped_topics, **{each.topic: each for each in dropped}}
        return msgspec.structs.replace(self, dropped_topics=topics)

    def without_dropped_topics(self, deleted: Iterable[str]) -> Catalog:
        """The next version of the catalog, once these topics are deleted."""
        left = {topic: each for topic, each in self.dropped_topics.items() if topic not in set(deleted)}
        return msgspec.structs.replace(self, version=self.version + 1, dropped_topics=left)

    def next_id(self) -> str:
        """The id of the next object."""
        return f"o{self.ids + 1}"

    def sources(self) -> list[Source]:
        """All sources, oldest first."""
        return [item for item in self.objects.values() if isinstance(item, Source)]

    def source_versions(self) -> list[Source]:
        """All sources with their earlier versions, which queries may still read: all that executors run, by id."""
        return [version for source in self.sources() for version in source.versions]

    def logs(self) -> list[Source]:
        """The versions of all sources, and of the logs of all tables."""
        return [*self.source_versions(), *(log for table in self.tables() for log in table.source.versions)]

    def next_number(self) -> int:
        """The smallest free number, for the next source or table. Raises UserError if all `MAX_SOURCES` are taken."""
        taken = {source.number for source in self.logs()}
        free = next(number for number in range(len(taken) + 1) if number not in taken)
        if free >= MAX_SOURCES:
            raise UserError(f"the catalog is limited to {MAX_SOURCES} sources and tables", hint="drop one first")
        return free

    def streams(self) -> list[Stream]:
        """All tagged streams over sources, oldest first."""
        return [item for item in self.objects.values() if isinstance(item, Stream)]

    def tables(self) -> list[Table]:
        """All tables, oldest first."""
        return [item for item in self.objects.values() if isinstance(item, Table)]

    def written_tables(self) -> list[Table]:
        """The tables whose rows statements change, oldest first; tables that a query fills are left out."""
        return [table for table in self.tables() if table.filled_by is None]

    def aggregates(self) -> list[Aggregate]:
        """All user-defined aggregates, oldest first."""
        return [item for item in self.objects.values() if isinstance(item, Aggregate)]

    def functions(self) -> list[Function]:
        """All user-defined functions, oldest first."""
        return [item for item in self.objects.values() if isinstance(item, Function)]

    def queries(self) -> list[Query]:
        """All views and queries, oldest first."""
        return [item for item in self.objects.values() if isinstance(item, Query)]

    def running(self) -> list[Query]:
        """The views and queries that lanes run. Views over the clock need none: they are arithmetic."""
        return [query for query in self.queries() if query.periodic is None]

    def subplans(self) -> list[SharedSubplan]:
        """The shared subplans that fragments compute for queries of other fragments, each once."""
        every = (subplan for query in self.queries() if query.links for subplan in subplans_below(query.links))
        return list({subplan.id: subplan for subplan in every}.values())

    def links(self) -> list[SharedSubplan | SharedLink]:
        """The shared subplans, and the links of divided queries that others may share, each once."""
        return list({link.id: link for query in self.queries() for link in query.held_links}.values())


def read_catalog(body: bytes | None, cluster: str) -> Catalog | None:
    """The catalog of `cluster`, decoded from the body of a stored copy; None for an empty body. Raises Malformed if the
    body cannot be decoded, belongs to another cluster, or has an object under another name than its own.
    """
    if not body:
        return None
    catalog: Catalog = decoded(body, Catalog)
    if catalog.cluster not in ("", cluster):
        raise Malformed(f'of cluster "{catalog.cluster[:100]}", not of "{cluster}"')
    if any(item.name.lower() != name for name, item in catalog.objects.items()):
        raise Malformed("an object is listed under a name that is not its own")
    return catalog
