"""Which of the queries that run a new one is answered over."""

from __future__ import annotations

import itertools
from typing import Final

import msgspec

from dsms.model.catalog import Catalog
from dsms.model.objects import Query
from dsms.optimizer.view_matching import answered_over, match_digests
from dsms.physical.fragment_plan import Planned
from dsms.physical.fragment_plan import planned as plan
from dsms.sql.binder.earlier_queries import former_of

#: So many queries are looked at, the oldest first.
MOST: Final = 32


def over_views(query: Planned, draft: Query, catalog: Catalog) -> tuple[Query, list[str]]:
    """The query with those that it is answered over as they are now, and their names.

    The decision is made once, so it does not depend on what becomes of the others. It is a hint: the plan is derived
    from it each time, and is the query's own where it does not fit.
    """
    if draft.grouped or not draft.shared or draft.sheddable:
        return draft, []
    mine = match_digests(query.optimized)
    alike = (other for other in catalog.running() if not mine.isdisjoint(other.marks))
    found = [plan(other, catalog) for other in itertools.islice(alike, MOST)]
    answer = answered_over(query.optimized, [other.optimized for other in found])
    used = [other.sink for at, other in enumerate(found) if at in answer.views and other.sink is not None]
    over = tuple(former_of(other, catalog) for other in used)
    return msgspec.structs.replace(draft, marks=tuple(sorted(mine)), over=over), [other.name for other in used]
