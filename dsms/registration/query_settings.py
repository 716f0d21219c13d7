"""Finds the query that a statement about its settings names; describes these settings in messages."""

from __future__ import annotations

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Query, kind_of
from dsms.registration.join_orders import order_text


def state_limit_text(query: Query) -> str:
    """The limit of the state of a query, for messages; empty without one."""
    most = query.state_memory
    return "" if most is None else f", at most {most} bytes of unshared state in Redis"


def fragments_text(query: Query) -> str:
    """The fragments that run a query together, for messages; empty if one fragment runs it."""
    now = f", run by fragments {', '.join(query.shares)}" if query.shares else ""
    return now + (", gets more fragments when it falls behind" if query.fragments_by_load else "")


def place_text(query: Query) -> str:
    """Where a query runs, for messages: its fragments, and those from which it reads shared subplans."""
    plural = "s" if len(query.fragments) > 1 else ""
    read = ", ".join(f"{subplan.id} from fragment {subplan.fragment}" for subplan in query.links)
    return f", fragment{plural} {', '.join(query.fragments)}" + (f", reads shared subplans {read}" if read else "")


def join_order_text(query: Query) -> str:
    """The order of the joins of a query, for messages; empty if it is the default."""
    if query.next_join_orders is not None:
        return f", changing its join order to {order_text(query.next_join_orders)}"
    return f", join order {order_text(query.join_orders)}" if query.join_orders else ""


def named_query(catalog: Catalog, name: st.Name) -> Query:
    """The view or query of a name. Raises SqlError for other objects and for views over the clock."""
    query = catalog.find(name.text, name.place)
    if not isinstance(query, Query):
        raise name.place.error(f'"{query.name}" is a {kind_of(query)}, not a view or query')
    if query.periodic is not None:
        raise name.place.error(
            f'"{query.name}" is a view over the clock: it never runs, so it cannot be paused or altered'
        )
    return query
