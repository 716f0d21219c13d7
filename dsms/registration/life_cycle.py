"""What becomes of a query after it was made: it is paused, resumed, and given another weight or limit."""

from __future__ import annotations

import msgspec

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Query, kind_of
from dsms.model.statement_result import StatementResult
from dsms.registration.clauses import result_settings
from dsms.registration.environment import Applied, Environment, apply


@apply.register
def _(statement: st.SetPaused, catalog: Catalog, environment: Environment) -> Applied:
    """A query that is so already is left as it is: asking twice is no error. One that was paused runs for itself from
    then on: the state of a member of a family is not to be told from the others'."""
    found = query_of(catalog, statement.name)
    verb, now = ("PAUSE", "paused") if statement.paused else ("RESUME", "resumed")
    if found.paused == statement.paused:
        return catalog, StatementResult(verb, f'{found.kind} "{found.name}" is already {now}', name=found.name)
    changed = msgspec.structs.replace(found, paused=statement.paused, grouped=False)
    return catalog.with_changed(changed), StatementResult(verb, f'{found.kind} "{found.name}" {now}', name=found.name)


@apply.register
def _(statement: st.AlterQuery, catalog: Catalog, environment: Environment) -> Applied:
    found = query_of(catalog, statement.name)
    changed = msgspec.structs.replace(found, **result_settings(statement.clauses))
    message = f'{found.kind} "{found.name}" has weight {changed.weight:g}{limit_of(changed)}'
    if changed == found:
        return catalog, StatementResult("ALTER", message, name=found.name)
    return catalog.with_changed(changed), StatementResult("ALTER", message, name=found.name)


def limit_of(query: Query) -> str:
    """The limit of its state as messages tell it."""
    most = query.state_memory
    return "" if most is None else f", at most {most} bytes of unshared state in Redis"


def query_of(catalog: Catalog, name: st.Name) -> Query:
    """The running view or query of a name."""
    found = catalog.find(name.text, name.place)
    if not isinstance(found, Query):
        raise name.place.error(f'"{found.name}" is a {kind_of(found)}, not a view or query')
    if found.periodic is not None:
        raise name.place.error(
            f'"{found.name}" is a view over the clock: it never runs, so it cannot be paused or altered'
        )
    return found
