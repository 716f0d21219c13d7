"""Checks whether a caller may make a change of the catalog, by the objects that change, not by the statement."""

from __future__ import annotations

import msgspec

from dsms.model.catalog import Catalog
from dsms.model.objects import Object, Query, Source, Table
from dsms.model.principal import Forbidden, Principal
from dsms.model.roles import allows
from dsms.model.user_defined import Aggregate, Function
from operators.core.errors import UserError


def check_change(principal: Principal, before: Catalog, after: Catalog) -> None:
    """Raises Forbidden unless the principal may write every object that the change creates, changes or drops, may read
    the topics of the sources among them, and may write the topics of the others. Only administrators may change code
    that administrators deployed, and drop sinks; for these they need the right to write the name of the sink."""
    administrator = allows(principal.role, "administrator")
    for name in sorted(before.sinks.keys() - after.sinks.keys()):
        if not administrator:
            hint = "ask one to drop it first"
            raise Forbidden(f'only administrators may drop sink "{before.sinks[name].name}"', hint=hint)
        principal.check_write(name)
    if after is before or (administrator and not principal.restricted):
        return
    for name in before.objects.keys() | after.objects.keys():
        old, new = before.objects.get(name), after.objects.get(name)
        if old != new:
            if not administrator:
                _check_code(old)
            principal.check_write(name)
            _check_topic(principal, old or _renamed(new, before), new or _renamed(old, after))


def _renamed(item: Object | None, catalog: Catalog) -> Object | None:
    """The object in a catalog in which it has another name."""
    return next((other for other in catalog.objects.values() if item is not None and other.id == item.id), None)


def _check_code(old: Object | None) -> None:
    """Raises Forbidden for an object with code in Python: callers of the object would run the new definition."""
    if isinstance(old, Function) or (isinstance(old, Aggregate) and any(part.python for part in old.parts)):
        name = old.name.removesuffix("()")
        raise Forbidden(
            f'"{name}" has Python code, which only administrators may change', hint="ask one to change or drop it"
        )


def _check_topic(principal: Principal, old: Object | None, new: Object | None) -> None:
    """Checks the rights on the topic of an object that is created or dropped, or that gets another topic."""
    for item in (old, new):
        if old is not None and new is not None and _topic(old) == _topic(new):
            return
        if isinstance(item, Source):
            principal.check_read_topic(item.topic)
        elif isinstance(item, Query | Table) and _written(item):
            principal.check_write_topic(item.topic)


def _topic(item: Object) -> str | None:
    return None if not isinstance(item, Source | Query | Table) else item.topic


def _written(item: Query | Table) -> bool:
    """Whether the object has a topic: views over the clock have none."""
    return isinstance(item, Table) or item.periodic is None


def with_owners(principal: Principal, before: Catalog, after: Catalog) -> Catalog:
    """The catalog after a change, with `principal` as the owner of new queries. A query that replaces another one keeps
    that query's owner."""
    owned = {}
    for name, item in after.objects.items():
        if isinstance(item, Query) and not item.owner and before.objects.get(name) is not item:
            old = before.objects.get(name) or _renamed(item, before)
            owned[name] = msgspec.structs.replace(item, owner=old.owner if isinstance(old, Query) else principal.name)
    return msgspec.structs.replace(after, objects={**after.objects, **owned}) if owned else after


def check_owned(principal: Principal, before: Catalog, after: Catalog, most: int) -> None:
    """Raises UserError if the change raises the number of the principal's queries above the limit."""
    limit = most if principal.limits.queries is None else principal.limits.queries
    count = _owned(principal, after)
    if count > limit and count > _owned(principal, before):
        hint = 'drop one first; the limit "token_queries" is set by DSMS_LIMITS or the token'
        raise UserError(f'token "{principal.name}" would have {count} queries, more than {limit}', hint=hint)


def _owned(principal: Principal, catalog: Catalog) -> int:
    return sum(query.owner == principal.name for query in catalog.queries())
