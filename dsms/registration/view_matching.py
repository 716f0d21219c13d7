"""View matching: finds the running queries from whose rows a query can be computed.

A new query is computed from running ones from the beginning (`over_views`). If the new query contains running ones,
these move onto its operators while they run (`moved_onto`), so the order of registration makes no difference. When the
containing query is dropped, they move back (`moved_off`), because they should not hold rows that they do not need.
`next_plans` says how a query moves.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from dsms.model import logical
from dsms.model.catalog import Catalog
from dsms.model.fingerprint import fingerprint
from dsms.model.kept_state import with_own_state
from dsms.model.objects import Former, Query
from dsms.planner.optimizer.optimize import optimize
from dsms.planner.optimizer.view_matching import computed_from_views, match_digests
from dsms.planner.physical.fragment_plan import PlannedQuery
from dsms.planner.physical.fragment_plan import planned as plan
from dsms.registration.environment import Environment
from dsms.registration.next_plans import check_can_begin, why_plan_is_fixed
from dsms.sql.binder.former_versions import former_of
from operators.core.errors import UserError

#: The maximal number of queries to examine, oldest first.
MAX_CANDIDATES: Final = 32
#: The most running queries that are examined for an operator to merge with, and the most queries of which an operator
#: has the columns. Each query that joins makes the others move again, and is stored in their hints.
MAX_PARTNERS: Final = 8
MAX_MERGED: Final = 4


def over_views(query: PlannedQuery, draft: Query, catalog: Catalog) -> tuple[Query, list[str]]:
    """The query with the current versions of the queries from which it can be computed, and their names.

    The choice is stored as a hint, so later changes of those queries do not matter. The plan is derived from the hint
    each time; if the hint does not apply, the query's own plan is used.
    """
    if not draft.may_share_parts:
        return draft, []
    digests = tuple(sorted(match_digests(query.optimized)))
    used = _containing(query.optimized, digests, catalog.running(), catalog)
    over = tuple(former_of(other, catalog) for other in used)
    return msgspec.structs.replace(draft, match_digests=digests, over=over), [other.name for other in used]


def merged_with(
    query: PlannedQuery, draft: Query, catalog: Catalog, environment: Environment
) -> tuple[Query, list[str]]:
    """The new query over an operator that it has in common with a running query except for the columns, and the name of
    that query, which will move onto the operator, too. Unchanged if there is no such query, or if it cannot move."""
    if not draft.may_share_parts or draft.shares:
        return draft, []
    own = frozenset(draft.match_digests)
    matching = [other for other in catalog.running() if other.shared and not own.isdisjoint(other.match_digests)]
    plans = {other.id: plan(other, catalog) for other in matching[:MAX_CANDIDATES]}
    alone = plan(draft, catalog, query)
    if not _adds_state(alone, plans.values()):
        return draft, []
    free = (other for other in matching if other.next_hints is None and other.id in plans)
    partners = (other for other in free if len(_ids(other.over)) + 2 <= MAX_MERGED)
    for other in itertools.islice(partners, MAX_PARTNERS):
        former = msgspec.structs.replace(former_of(other, catalog), merged=True)
        changed = msgspec.structs.replace(draft, over=(former,), fragment=matching[0].fragment)
        merged = plan(changed, catalog, query)
        if _may_move(other, changed) and _saves(merged, alone, plans[other.id], plans.values()):
            moving = msgspec.structs.replace(other, next_over=(former_of(changed, catalog),))
            if _can_begin(moving, catalog, environment):
                return changed, [other.name]
    return draft, []


def _saves(merged: PlannedQuery, alone: PlannedQuery, partner: PlannedQuery, running: Iterable[PlannedQuery]) -> bool:
    """Whether a query planned as `merged` has, together with its partner and the queries that already share operators
    with the partner, fewer operators with state than planned as `alone`. All that can move onto it do."""
    if fingerprint(merged.optimized) == fingerprint(alone.optimized):
        return False
    if _computed_from(partner, merged.optimized) is None:
        return False
    of_partner = _names_of_state([partner.optimized])
    related = [other for other in running if not of_partner.isdisjoint(_names_of_state([other.optimized]))]
    moved = [(other, _computed_from(other, merged.optimized)) for other in related]
    staying = _names_of_state(other.optimized for other, node in moved if node is None)
    before = [alone.optimized, *(other.optimized for other, node in moved if node is not None)]
    after = [merged.optimized, *(node for _, node in moved if node is not None)]
    return len(_names_of_state(after) - staying) < len(_names_of_state(before) - staying)


def moved_onto(new: Query, catalog: Catalog, environment: Environment) -> list[Query]:
    """The running queries that can be computed from the rows of a new query, each changing to such a plan.

    A query moves only if that leaves it with fewer operators with state of its own. The operators of the new query run
    in any case, so no operator is added for the sake of a move.
    """
    if not new.may_share_parts or new.shares:
        return []
    candidates = (other for other in catalog.running() if other.id != new.id and _may_move(other, new))
    examined = {other.id: other for other in itertools.islice(candidates, MAX_CANDIDATES)}
    plans = {id: plan(other, catalog) for id, other in examined.items()}
    created = plan(new, catalog)
    if not _adds_state(created, plans.values()):
        return []
    containing = created.optimized
    moved = {id: node for id, known in plans.items() if (node := _computed_from(known, containing)) is not None}
    staying = _names_of_state([containing, *(known.optimized for id, known in plans.items() if id not in moved)])
    former = former_of(new, catalog)
    changing = [
        msgspec.structs.replace(examined[id], next_over=(former,))
        for id, node in moved.items()
        if len(_names_of_state([node]) - staying) < len(_names_of_state([plans[id].optimized]) - staying)
    ]
    return [query for query in changing if _can_begin(query, catalog, environment)]


def moved_off(catalog: Catalog, environment: Environment) -> list[Query]:
    """The queries that are computed from the rows of a query that no longer runs, each changing to a plan over running
    queries, or to its own plan. A query that could not begin such a plan keeps its operators."""
    running = {query.id for query in catalog.running()}
    left = [query for query in catalog.running() if not _ids([*query.over, *(query.next_over or ())]) <= running]
    settled = [query for query in catalog.running() if query not in left]
    changed = list[Query]()
    for query in left:
        current = msgspec.structs.replace(query, next_over=None)
        changing = current if _ids(query.over) <= running else _over_others(current, settled, catalog)
        allowed = changing.next_over is None or _can_begin(changing, catalog, environment)
        after = changing if allowed else current
        settled.append(after if after.next_over is None else msgspec.structs.replace(after, over=after.next_over))
        changed += [after] if after != query else []
    return changed


def _containing(node: logical.Node, digests: Iterable[str], others: Iterable[Query], catalog: Catalog) -> list[Query]:
    """The queries among `others` from whose rows a plan with these digests can be computed."""
    own = frozenset(digests)
    matching = (other for other in others if not own.isdisjoint(other.match_digests))
    candidates = [plan(other, catalog) for other in itertools.islice(matching, MAX_CANDIDATES)]
    rewrite = computed_from_views(node, [other.optimized for other in candidates])
    return [other.sink for at, other in enumerate(candidates) if at in rewrite.views and other.sink is not None]


def _may_move(query: Query, new: Query) -> bool:
    """Whether a running query may move onto operators of the new one: both run in one fragment, and the query does not
    change at present."""
    free = query.shared and query.next_hints is None and not query.join_orders and why_plan_is_fixed(query) is None
    return free and query.fragment == new.fragment and not frozenset(query.match_digests).isdisjoint(new.match_digests)


def _computed_from(query: PlannedQuery, containing: logical.Node) -> logical.Node | None:
    """The plan of a query over the rows of the plan `containing`; None if that is not possible."""
    rewrite = computed_from_views(optimize(query.node), [containing])
    return rewrite.node if rewrite.views else None


def _over_others(query: Query, others: Iterable[Query], catalog: Catalog) -> Query:
    """The query, changing to a plan over the rows of `others` that contain it."""
    if why_plan_is_fixed(query) is not None or query.join_orders or query.next_hints is not None:
        return query
    node = optimize(plan(query, catalog).node)
    beside = [other for other in others if other.fragment == query.fragment and query.id not in _ids(other.over)]
    used = _containing(node, query.match_digests, beside, catalog)
    return msgspec.structs.replace(query, next_over=tuple(former_of(other, catalog) for other in used))


def _can_begin(query: Query, catalog: Catalog, environment: Environment) -> bool:
    try:
        check_can_begin(query, catalog, environment)
    except UserError:
        return False
    return True


def _adds_state(query: PlannedQuery, others: Iterable[PlannedQuery]) -> bool:
    """Whether a query has an operator with state that none of the others has. Otherwise it runs on their operators, and
    nothing can be saved."""
    return not _names_of_state([query.optimized]) <= _names_of_state(other.optimized for other in others)


def _names_of_state(nodes: Iterable[logical.Node]) -> set[str]:
    """The names of the nodes with state in some plans."""
    return {fingerprint(part) for node in nodes for part in with_own_state(node)}


def _ids(formers: Iterable[Former]) -> set[str]:
    """The ids of the queries in hints, and of those from which they were computed."""
    return set(_all_ids(formers))


def _all_ids(formers: Iterable[Former]) -> Iterator[str]:
    for former in formers:
        yield former.id
        yield from _all_ids(former.over)
