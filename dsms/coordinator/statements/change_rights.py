"""Which changes of the catalog somebody may make: decided by the objects that change, not by the statement."""

from __future__ import annotations

from dsms.model.catalog import Catalog
from dsms.model.objects import Object, Query, Source, Table
from dsms.model.principal import Principal


def check_change(principal: Principal, before: Catalog, after: Catalog) -> None:
    """Raises Forbidden unless he may write every object that the change creates, changes or takes away, may read the
    topics of the sources among them, and write those of the others."""
    if not principal.restricted or after is before:
        return
    for name in before.objects.keys() | after.objects.keys():
        old, new = before.objects.get(name), after.objects.get(name)
        if old != new:
            principal.check_write(name)
            _check_topic(principal, old, new)


def _check_topic(principal: Principal, old: Object | None, new: Object | None) -> None:
    """The topic of what is created or dropped; what merely changes keeps its topic."""
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
    """Whether its topic exists: views over the clock have none."""
    return isinstance(item, Table) or item.periodic is None
