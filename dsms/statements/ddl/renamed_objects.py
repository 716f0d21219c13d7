"""The objects of a catalog after one of them is renamed.

The law: no plan changes. What the renamed object and its users compute, and the names under which their state is
stored, are equal before and after.
"""

from __future__ import annotations

import msgspec

from dsms.model.catalog import Catalog
from dsms.model.declared_columns import Constraint
from dsms.model.fingerprint import fingerprint
from dsms.model.objects import Object, Query, Source, Stream, Table
from dsms.model.sinks import KeptSink
from dsms.planner.physical.fragment_plan import compile_lane, planned
from dsms.sql.binder.bind import plan_of
from dsms.sql.binder.dependencies import dependents, reads
from dsms.statements.ddl.renamed_texts import Renaming
from operators.core.errors import UserError


def renamed(item: Object, new: str, catalog: Catalog) -> tuple[Catalog, Object | None]:
    """The next version of the catalog, in which the object has a new name in all texts; or the same catalog with the
    first object whose text cannot be rewritten such that its plan stays the same.

    Objects are taken in the order of their creation, so each is checked over the new versions of what it reads.
    """
    users, after, texts = {user.id for user in dependents(catalog, item)}, catalog, dict[str, str]()
    for other in catalog.objects.values():
        if other is item or other.id in users or _names(other, item):
            version = _first_equal(other, item, new, catalog, after)
            if version is None:
                return catalog, other
            after = _with(after, other, version)
            texts |= {other.sql: version.sql} if version.sql != other.sql else {}
    for other in [other for other in after.objects.values() if other.sql in texts]:
        after = _with(after, other, _with_sql(other, texts[other.sql]))  # a statement may have declared several objects
    comments = {new.lower() if name == item.name.lower() else name: on for name, on in catalog.comments.items()}
    sinks = {name: _kept(sink, item, new) for name, sink in catalog.sinks.items()}
    indexes = {new.lower() if name == item.name.lower() else name: on for name, on in catalog.indexes.items()}
    more = {"comments": comments, "sinks": sinks, "indexes": indexes}
    return msgspec.structs.replace(after, version=catalog.version + 1, **more), None


def _kept(sink: KeptSink, item: Object, new: str) -> KeptSink:
    """The sink, with the new name of its result if that is the renamed object."""
    return msgspec.structs.replace(sink, result=new.lower()) if sink.result == item.name.lower() else sink


def _with(catalog: Catalog, before: Object, after: Object) -> Catalog:
    """The catalog with a version of an object, in its place."""
    objects = {
        after.name.lower() if item is before else name: after if item is before else item
        for name, item in catalog.objects.items()
    }
    return msgspec.structs.replace(catalog, objects=objects)


def _names(other: Object, item: Object) -> bool:
    """Whether an object itself names the item."""
    match other:
        case Table():
            return other.filled_by is not None and other.filled_by.lower() == item.name.lower()
        case Query(fills=filled) if filled == item.id:
            return True
    return item.name.lower() in map(str.lower, reads(other))


def _first_equal(other: Object, item: Object, new: str, before: Catalog, after: Catalog) -> Object | None:
    """The version of an object with the new name, whose plan over the catalog `after` is that over `before`. The old
    name becomes an alias only if it is needed. None if there is no such version."""
    for aliased in (False, True):
        try:
            version = _version(other, item, Renaming(item.name, new, aliased=aliased))
            if computation(version, _with(after, other, version)) == computation(other, before):
                return version
        except UserError:
            continue
    return None


def _version(other: Object, item: Object, renaming: Renaming) -> Object:
    """An object with the new name instead of the old one. Raises UserError if its text cannot be read."""
    if other is item:
        return _own(item, renaming)
    if not _names(other, item):
        return other
    match other:
        case Stream():
            sql = renaming.of_statement(other.sql)
            return msgspec.structs.replace(other, source=renaming.new, sql=sql)
        case Source():
            promises = (_promise(promise, renaming) for promise in other.constraints)
            return other.renamed(constraints=tuple(promises), sql=renaming.of_statement(other.sql))
        case Table():
            return msgspec.structs.replace(other, filled_by=renaming.new)
        case Query():
            select = other.select if other.fills == item.id else renaming.of_query(other.select)
            return msgspec.structs.replace(other, select=select, sql=renaming.of_statement(other.sql))
    return other


def _promise(promise: Constraint, renaming: Renaming) -> Constraint:
    names_it = promise.other is not None and renaming.is_old(promise.other)
    return msgspec.structs.replace(promise, other=renaming.new) if names_it else promise


def _own(item: Object, renaming: Renaming) -> Object:
    """The renamed object itself."""
    sql = item.sql if isinstance(item, Query) and item.fills is not None else renaming.of_own_statement(item.sql)
    match item:
        case Source():
            return item.renamed(name=renaming.new, sql=sql, own_dead_letter_topic=item.dead_letter_topic)
        case Table():
            log = item.source.renamed(name=renaming.new, sql=sql, own_dead_letter_topic=item.source.dead_letter_topic)
            checks = {name: renaming.of_condition(text) for name, text in item.checks.items()}
            return msgspec.structs.replace(item, name=renaming.new, sql=sql, source=log, checks=checks)
        case Stream():
            first = item.created_as or item.name
            return msgspec.structs.replace(item, name=renaming.new, sql=sql, created_as=first)
        case Query():
            return msgspec.structs.replace(item, name=renaming.new, sql=sql, created_as=item.first_name)
    return msgspec.structs.replace(item, name=renaming.new, sql=sql)


def _with_sql(item: Object, sql: str) -> Object:
    return item.renamed(sql=sql) if isinstance(item, Source) else msgspec.structs.replace(item, sql=sql)


def computation(item: Object, catalog: Catalog) -> tuple[object, ...]:
    """What identifies the plan of an object and the state that it has; () if nothing runs for it."""
    match item:
        case Stream() | Table():
            return (fingerprint(plan_of(item.name, catalog)),)
        case Query(periodic=None):
            plan = planned(item, catalog)
            former = plan.former and fingerprint(plan.former)
            lane = compile_lane(plan.id, [plan], divisible=bool(item.shares))
            return fingerprint(plan.node), former, lane.flow.keys, lane.flow.queues
    return ()
