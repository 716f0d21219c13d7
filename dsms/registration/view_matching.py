"""View matching at registration: finds the running queries from whose rows a new one can be computed."""

from __future__ import annotations

import itertools
from typing import Final

import msgspec

from dsms.model.catalog import Catalog
from dsms.model.objects import Query
from dsms.planner.optimizer.view_matching import computed_from_views, match_digests
from dsms.planner.physical.fragment_plan import PlannedQuery
from dsms.planner.physical.fragment_plan import planned as plan
from dsms.sql.binder.former_versions import former_of

#: The maximal number of candidates to examine, oldest first.
MAX_CANDIDATES: Final = 32


def over_views(query: PlannedQuery, draft: Query, catalog: Catalog) -> tuple[Query, list[str]]:
    """The query with the current versions of the queries from which it can be computed, and their names.

    The choice is made once and stored as a hint, so later changes of those queries do not matter. The plan is derived
    from the hint each time; if the hint does not apply, the query's own plan is used.
    """
    if draft.grouped or not draft.shared or draft.adjustable:
        return draft, []
    own_digests = match_digests(query.optimized)
    matching = (other for other in catalog.running() if not own_digests.isdisjoint(other.match_digests))
    candidates = [plan(other, catalog) for other in itertools.islice(matching, MAX_CANDIDATES)]
    rewrite = computed_from_views(query.optimized, [other.optimized for other in candidates])
    used = [other.sink for at, other in enumerate(candidates) if at in rewrite.views and other.sink is not None]
    over = tuple(former_of(other, catalog) for other in used)
    return msgspec.structs.replace(draft, match_digests=tuple(sorted(own_digests)), over=over), [
        other.name for other in used
    ]
