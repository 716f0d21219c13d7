"""Queries that several fragments run together: which of them can be divided, and among which fragments."""

from __future__ import annotations

import msgspec

from dsms.model import logical, properties
from dsms.model.catalog import Catalog
from dsms.model.objects import Query
from dsms.physical.fragment_plan import Planned, divided
from dsms.registration.environment import Environment
from dsms.registration.placement import least_loaded
from operators.core.errors import UserError


def divided_among(count: int, draft: Query, node: logical.Node, catalog: Catalog, environment: Environment) -> Query:
    """The query with the `count` fragments that share its keys. Raises UserError where it cannot be divided."""
    busy = environment.busy()
    if count > len(busy):
        have = f"there {'is' if len(busy) == 1 else 'are'} {len(busy)}"
        raise UserError(
            f"the query wants {count} fragments, but {have}",
            hint="start the coordinator with more: dsms coordinator --fragments N, or `fragments` in the chart",
        )
    _check_settings(draft)
    for source in properties.sources(node):
        _check_partitions(f'{"table" if source.table else "source"} "{source.name}"', source.partitions, count)
    _check_partitions("the result", draft.partitions, count)
    names = tuple(least_loaded(catalog, tuple(source.id for source in properties.sources(node)), busy)[:count])
    shared = msgspec.structs.replace(draft, shares=names, fragment=names[0], shared=False)
    divided(Planned(shared.id, shared.name, node, shared), "")
    return shared


def _check_settings(draft: Query) -> None:
    """Raises UserError for settings that need all of a query in one place."""
    given = {"MAX_ERROR": draft.sheddable, "INSERT INTO": draft.fills, "STATE_MEMORY": draft.state_memory}
    for name, value in given.items():
        if value:
            raise UserError(f"{name} needs a query that one fragment runs", hint="leave FRAGMENTS out")


def _check_partitions(what: str, have: int, wanted: int) -> None:
    if have < wanted:
        raise UserError(
            f"{what} has {have} partition{'' if have == 1 else 's'}, fewer than the {wanted} fragments",
            hint="each fragment reads and writes partitions of its own: PARTITIONS sets how many there are",
        )
