"""The query that a statement names, and texts about a query's settings for messages."""

from __future__ import annotations

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Query, kind_of
from dsms.registration.join_orders import order_text


def limit_of(query: Query) -> str:
    """The limit of its state, for messages; empty without one."""
    most = query.state_memory
    return "" if most is None else f", at most {most} bytes of unshared state in Redis"


def shares_of(query: Query) -> str:
    """The fragments that run it together, for messages; empty if one fragment runs it."""
    now = f", run by fragments {', '.join(query.shares)}" if query.shares else ""
    return now + (", gets more fragments when it falls behind" if query.fragments_by_load else "")


def order_of(query: Query) -> str:
    """The order of its joins, for messages; empty if it is the default."""
    if query.next_join_orders is not None:
        return f", changing its join order to {order_text(query.next_join_orders)}"
    return f", join order {order_text(query.join_orders)}" if query.join_orders else ""


def query_of(catalog: Catalog, name: st.Name) -> Query:
    """The view or query of a name. Raises SqlError for other objects and for views over the clock."""
    query = catalog.find(name.text, name.place)
    if not isinstance(query, Query):
        raise name.place.error(f'"{query.name}" is a {kind_of(query)}, not a view or query')
    if query.periodic is not None:
        raise name.place.error(
            f'"{query.name}" is a view over the clock: it never runs, so it cannot be paused or altered'
        )
    return query
