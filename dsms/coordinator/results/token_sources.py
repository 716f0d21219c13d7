"""Which sources a query has to have read, so that its result covers published records."""

from __future__ import annotations

from dsms.model import properties
from dsms.model.catalog import Catalog
from dsms.model.objects import Query, Source
from dsms.sql.binder.bind import plan_of
from operators.core.errors import UserError


def sources_of_token(query: Query, token_source: str, catalog: Catalog) -> tuple[Source, ...]:
    """The versions of a source that a query reads; the token names any of them by its id. Each version reads the
    records at its own pace. Raises UserError if the query reads none."""
    sources = properties.sources(plan_of(query.name, catalog))
    versions = next((each.ids for each in catalog.sources() if token_source in each.ids), (token_source,))
    read = tuple(each for each in sources if each.id in versions)
    if not read:
        raise UserError(
            f'"{query.name}" does not read the source of the token',
            hint=f"it reads: {', '.join(dict.fromkeys(each.name for each in sources))}",
        )
    # the plan as it is run may read fewer of them than the text
    return tuple(each for each in read if each.id in query.reads) or read
