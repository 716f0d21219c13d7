"""Former versions of queries: how they are stored, and their plans over the views as these were at that time."""

from __future__ import annotations

import msgspec

from dsms.model import logical
from dsms.model.catalog import Catalog
from dsms.model.field_role import names_of
from dsms.model.objects import Former, Object, Query
from dsms.sql.binder.bind import plan_given
from dsms.sql.binder.dependencies import dependencies_of

#: The fields of a query that its former version keeps.
_KEPT_FIELDS = names_of(Query, lambda role: role.in_former)


def former_plan(query: Query) -> logical.Node | None:
    """The plan of the former version of a query; None if the query does not keep one."""
    return None if query.former is None else plan_of_former(query.former)


def plan_of_former(former: Former) -> logical.Node:
    """The plan of a former version over the versions of the objects that it read."""
    return plan_given(former, *former.objects)


def former_of(query: Query, catalog: Catalog) -> Former:
    """The current version of a query, to be stored by a query that replaces it, or that is computed from its rows."""
    objects = tuple(map(_without_formers, dependencies_of(query, catalog)))
    memory = query.memory if query.has_chosen_window_sizes else None
    kept = {name: getattr(query, name) for name in _KEPT_FIELDS}
    return Former(**kept, objects=objects, sheddable=query.sheddable, memory=memory)


def _without_formers(item: Object) -> Object:
    """An object without its own former versions: queries that read it never need them."""
    return msgspec.structs.replace(item, former=None, over=(), next_over=None) if isinstance(item, Query) else item
