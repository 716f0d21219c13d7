"""ALTER QUERY applied to a catalog, and texts about a query's settings for messages."""

from __future__ import annotations

import msgspec

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Query, kind_of
from dsms.model.statement_result import StatementResult
from dsms.registration.clauses import result_settings
from dsms.registration.division import check_divisible, with_dead_letter_writers, with_fragments
from dsms.registration.environment import Applied, Environment
from dsms.registration.join_orders import check_can_begin, order_text, with_next_order
from dsms.sql.binder.bind import plan_of


def alter_query(statement: st.AlterQuery, catalog: Catalog, environment: Environment) -> Applied:
    """Sets the options of a query that may change while it runs. To change its fragments, the caller halts the query
    first."""
    query, settings = query_of(catalog, statement.name), result_settings(statement.clauses)
    count, orders = settings.pop("fragments", None), settings.get("next_join_orders")
    changed = msgspec.structs.replace(query, **settings)
    if isinstance(orders, tuple):
        changed = with_next_order(changed, orders, catalog)
        check_can_begin(changed, catalog, environment)
    if isinstance(count, int):
        others = count != len(query.fragments)
        changed = (
            with_fragments(count, changed, catalog, environment)
            if others
            else msgspec.structs.replace(changed, halted=False)
        )
    if changed.fragments_by_load and not query.fragments_by_load:
        check_divisible(changed, plan_of(query.name, catalog))
    details = f"{limit_of(changed)}{shares_of(changed)}{order_of(changed)}"
    message = f'{query.kind} "{query.name}" has weight {changed.weight:g}{details}'
    if changed == query:
        return catalog, StatementResult("ALTER", message, name=query.name)
    return with_dead_letter_writers(changed, catalog.with_changed(changed)), StatementResult(
        "ALTER", message, name=query.name
    )


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
