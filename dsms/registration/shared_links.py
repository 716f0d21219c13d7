"""Chooses the links that a divided query shares with others, and the fragments where it can share them."""

from __future__ import annotations

from collections.abc import Container, Iterator

import msgspec

from dsms.model import logical
from dsms.model.catalog import Catalog
from dsms.model.objects import Query
from dsms.model.shared_links import SharedLink
from dsms.planner.physical.fragment_plan import PlannedQuery, divided
from dsms.planner.physical.parts.cut import DividedQuery
from dsms.planner.physical.parts.links import link_id
from dsms.planner.physical.parts.shared_links import link_digests, topic_of_shared_link
from dsms.registration.environment import Environment, names_for_caller


def fragments_to_share_with(whole: DividedQuery, catalog: Catalog, available: Container[str]) -> tuple[str, ...] | None:
    """The fragments of the query with which a new one has most links in common, of the oldest one if several have as
    many; None if there is none. Both are divided among equally many fragments, all of which must be `available`."""
    digests = {*link_digests(whole).values()}

    def common(other: Query) -> int:
        alike = len(other.shares) == len(whole.query.shares) and all(name in available for name in other.shares)
        return len(digests & {link.digest for link in other.shared_links}) if alike else 0

    best = max(catalog.running(), key=common, default=None)
    return best.shares if best is not None and common(best) else None


def holding_links(
    query: Query, node: logical.Node, catalog: Catalog, environment: Environment
) -> tuple[Query, tuple[str, ...]]:
    """A new divided query with the links that it holds, and a notice about those that others hold already. A link has
    the name of the first query that held it."""
    known = {link.digest: link for other in _beside(query, catalog) for link in other.shared_links}
    digests = {*link_digests(divided(PlannedQuery(query.id, query.name, node, query), "")).values()}
    links = tuple(known.get(digest) or _new(digest, query, catalog, environment.cluster) for digest in sorted(digests))
    holding = msgspec.structs.replace(query, shared_links=links)
    return holding, tuple(_notice(holding, catalog, environment))


def _beside(query: Query, catalog: Catalog) -> list[Query]:
    """The queries that the same fragments run, shard by shard, the oldest first."""
    return [other for other in catalog.running() if other.shares == query.shares]


def _new(digest: str, query: Query, catalog: Catalog, cluster: str) -> SharedLink:
    name = f"{digest[:10]}v{catalog.version + 1}"
    return SharedLink(link_id(query.id, name), topic_of_shared_link(cluster, query.id, name), digest)


def _notice(query: Query, catalog: Catalog, environment: Environment) -> Iterator[str]:
    own = {*query.shared_links}
    others = [other for other in _beside(query, catalog) if own & {*other.shared_links}]
    common = own & {link for other in others for link in other.shared_links}
    if common:
        names = names_for_caller(others, environment)
        yield f"shares {len(common)} of its {len(own)} links between fragments with {names}, with all operators below"
