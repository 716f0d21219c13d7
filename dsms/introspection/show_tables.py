"""SHOW OPERATORS, QUEUES, SYNOPSES, CONSTRAINTS and PATHS return control tables as rows."""

from __future__ import annotations

from collections.abc import Iterable
from functools import singledispatch

from dsms.introspection.entities import (
    Adherence,
    Entity,
    Kind,
    PathStage,
    Queue,
    Report,
    Synopsis,
    belongs_to,
    entities,
    listed,
)
from dsms.introspection.operator_metrics import HEADINGS, Operator, cells

#: The columns of the rows of each kind.
COLUMNS: dict[Kind, tuple[str, ...]] = {
    "operators": ("id", "operator", "queries", *HEADINGS),
    "queues": ("id", "before", "queries", "next offset", "end offset", "rows", "bytes"),
    "synopses": ("id", "operator", "queries", "traces", "rows", "bytes", "rows by target"),
    "constraints": ("source", "partition", "queries", "promise", "largest k seen", "violations"),
    "paths": (
        "id",
        "stage",
        "queries",
        "µs/byte",
        "selectivity",
        "chart µs",
        "chart size",
        "chain",
        "slope",
        "waiting bytes",
        "waiting s",
        "weight",
        "s ahead",
    ),
}


def selected(reports: Iterable[Report], kind: Kind, query: str | None = None) -> list[Entity]:
    """The entities of a kind that belong to a query, or all if `query` is None."""
    return [entity for report in reports for entity in entities(report, kind) if belongs_to(entity, query)]


@singledispatch
def row(entity: Entity) -> tuple[object, ...]:
    """The row of an entity, in the columns of its kind."""
    raise TypeError(entity)


@row.register
def _(entity: Operator) -> tuple[object, ...]:
    return entity.id, entity.operator, listed(entity.queries), *cells(entity)


@row.register
def _(entity: Queue) -> tuple[object, ...]:
    before = f"stage {entity.stage}" if entity.source is None else f"{entity.source}/{entity.partition}"
    where = (entity.id, before, listed(entity.queries))
    return (*where, entity.next_offset, entity.end_offset, entity.rows, entity.bytes)


@row.register
def _(entity: Synopsis) -> tuple[object, ...]:
    by_target = ", ".join(map(str, entity.rows_by_target))
    where = (entity.id, entity.operator, listed(entity.queries))
    return (*where, entity.traces, entity.rows, entity.bytes, by_target)


@row.register
def _(entity: Adherence) -> tuple[object, ...]:
    promise = entity.promise + (" (watched)" if entity.k is None else "")
    return entity.source, entity.partition, listed(entity.queries), promise, entity.worst, entity.violations


@row.register
def _(entity: PathStage) -> tuple[object, ...]:
    where = (entity.id, entity.stage, listed(entity.queries))
    cost, chart = _rounded(entity.seconds_per_byte, 1e6), _rounded(entity.chart_seconds, 1e6)
    measured = (cost, _rounded(entity.selectivity), chart, _rounded(entity.chart_size), entity.chain)
    waits = (entity.waiting_bytes, _rounded(entity.waiting_seconds))
    return (*where, *measured, _rounded(entity.chain_slope), *waits, entity.weight, _rounded(entity.seconds_ahead))


def _rounded(value: float | None, factor: float = 1.0) -> float | None:
    """Four digits of a value in another unit."""
    return None if value is None else float(f"{value * factor:.4g}")
