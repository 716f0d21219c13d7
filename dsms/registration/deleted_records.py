"""Registration of queries over sources whose first records were deleted, by retention or by hand.

A new query reads a source from the first record that its topic still has; the offset is kept in the catalog, so results
stay a function of the logs. A plan that has to begin where another query began, such as that of a view, a table or a
replaced query, is refused, because its results would differ from those which that query published.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dsms.model import logical, properties
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import FirstOffsets, Query, Source, Table
from dsms.planner.optimizer.first_offsets import gone_before, needed_from
from dsms.registration.environment import Environment
from dsms.sql.binder.bind import plan_of
from dsms.sql.binder.dependencies import names_in
from operators.core.errors import UserError


def reads_of(statement: st.ContinuousQuery, catalog: Catalog) -> list[logical.Node]:
    """The plans of the views and tables that a query reads. The query has to read their sources from where they began.
    Views over the clock are left out, because they have no beginning."""
    read = [catalog.get(name) for name in names_in(statement.select)]
    fixed = (item for item in read if isinstance(item, Table) or (isinstance(item, Query) and item.periodic is None))
    return [plan_of(item.name, catalog) for item in fixed]


def first_offsets(node: logical.Node, fixed: Sequence[logical.Node], environment: Environment) -> FirstOffsets:
    """The first offsets of a new query, by source id and partition, for the sources whose first records were deleted.
    Raises UserError if one of the plans in `fixed` needs a deleted record."""
    sources = properties.sources(node)
    earliest = environment.earliest(sources)
    _check(fixed, earliest, "a query over it")
    lost = (source for source in sources if any(_deleted_offsets(scan, earliest) for scan in _scans([node], source)))
    return {source.id: {**_first_needed(source), **_first_remaining(source, earliest)} for source in lost}


def check_none_deleted(plans: Sequence[logical.Node], environment: Environment, doing: str) -> None:
    """Raises UserError if records with which one of the plans begins were deleted from a topic."""
    sources = {source.id: source for plan in plans for source in properties.sources(plan)}
    _check(plans, environment.earliest(list(sources.values())), doing)


def _check(plans: Iterable[logical.Node], earliest: FirstOffsets, doing: str) -> None:
    for scan in _scans(plans):
        for partition, (first, upto) in _deleted_offsets(scan, earliest).items():
            raise UserError(
                f'offsets {first} to {upto - 1} of topic "{scan.source.topic}" partition {partition} were deleted, but '
                f"{doing} needs them",
                hint="write the query over the streams themselves, or DROP it and create it again: "
                "it then begins at the first remaining records",
            )


def _scans(plans: Iterable[logical.Node], source: Source | None = None) -> Iterator[logical.StreamScan]:
    for plan in plans:
        for scan in properties.scans(plan):
            if source is None or scan.source.id == source.id:
                yield scan


def _deleted_offsets(scan: logical.StreamScan, earliest: FirstOffsets) -> dict[int, tuple[int, int]]:
    return gone_before(scan, earliest.get(scan.source.id, {}))


def _first_needed(source: Source) -> dict[int, int]:
    return needed_from(logical.StreamScan(source, source.name, ()))


def _first_remaining(source: Source, earliest: FirstOffsets) -> dict[int, int]:
    start = _first_needed(source)
    return {part: max(offset, start.get(part, 0)) for part, offset in earliest.get(source.id, {}).items()}
