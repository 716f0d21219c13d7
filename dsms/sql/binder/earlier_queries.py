"""Queries as they were when others needed them: planned over the views of their time, whatever became of these."""

from __future__ import annotations

import msgspec

from dsms.model import logical
from dsms.model.catalog import Catalog
from dsms.model.objects import Former, Object, Query
from dsms.sql.binder.bind import plan_over
from dsms.sql.binder.read_names import below


def former_plan(query: Query) -> logical.Node | None:
    """The plan that a query had before it was replaced; None where nothing of it is needed."""
    return None if query.former is None else plan_as_it_was(query.former)


def plan_as_it_was(former: Former) -> logical.Node:
    """The plan of a query over the objects of its time."""
    return plan_over(former, *former.objects)


def former_of(query: Query, catalog: Catalog) -> Former:
    """A query as it is, for one that replaces it or is answered over it."""
    objects = tuple(map(_bare, below(query, catalog)))
    return Former(
        id=query.id,
        select=query.select,
        start=query.start,
        objects=objects,
        over=query.over,
        sheddable=query.sheddable,
        error_columns=query.error_columns,
        shed_where=query.shed_where,
    )


def _bare(item: Object) -> Object:
    """A view is read by what it is; what it was before is nothing to its readers."""
    return msgspec.structs.replace(item, former=None, over=()) if isinstance(item, Query) else item
