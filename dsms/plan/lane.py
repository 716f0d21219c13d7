"""A lane: one continuous query as a dataflow over its sources, with its own positions, frontier and state."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from dsms.catalog.catalog import Catalog
from dsms.catalog.objects import Query, Source
from dsms.plan import logical, properties
from dsms.plan.builder import Builder, Port
from dsms.plan.dataflow import Dataflow
from dsms.plan.lower import lower
from dsms.plan.optimize import optimize
from dsms.plan.schema import schema, visible
from dsms.sql.bind import plan_of
from operators.delta import MAX_SOURCES
from operators.errors import UserError
from operators.stream_output import StreamOutput


@dataclass(frozen=True)
class Lane:
    """How one query runs. `keys` and `schema` are those of the visible result; `sources` are its leaves, by number."""

    id: str
    name: str
    sources: tuple[Source, ...]
    flow: Dataflow
    schema: pa.Schema
    keys: tuple[str, ...]
    append_only: bool
    #: Where results go; None for a stream, which has no topic of its own.
    sink: Query | None = None

    def leaf(self, source_id: str) -> int:
        """The number of a source among the leaves."""
        return [source.id for source in self.sources].index(source_id)


@dataclass(frozen=True)
class FragmentPlan:
    """What one fragment runs: a version of the plan, the partitions of its exchanges, and its lanes by id."""

    version: int
    partitions: int
    lanes: dict[str, Lane] = field(default_factory=dict)


def plan_fragment(catalog: Catalog, partitions: int) -> FragmentPlan:
    """The plan of a catalog: a pure function, so every process that knows the catalog knows the plan."""
    lanes = [compile_lane(found.id, found.name, plan_of(found.name, catalog), found) for found in catalog.running()]
    return FragmentPlan(catalog.version, partitions, {lane.id: lane for lane in lanes})


def compile_lane(lane_id: str, name: str, node: logical.Node, sink: Query | None = None) -> Lane:
    """The dataflow of a logical plan, with the stream output at its end."""
    builder = Builder()
    keys, append_only = properties.keys(node), properties.append_only(node)
    below = lower(optimize(node), builder)
    output = StreamOutput(keys, append_only)
    builder.add(output, [_gathered(below, keys, append_only, builder)], schema(node))
    if len(builder.sources) > MAX_SOURCES:
        raise UserError(f'"{name}" reads {len(builder.sources)} sources', hint=f"at most {MAX_SOURCES} are possible")
    return Lane(lane_id, name, tuple(builder.sources), builder.dataflow(), visible(node), keys, append_only, sink)


def _gathered(below: Port, keys: tuple[str, ...], append_only: bool, builder: Builder) -> Port:
    """Changes of one key, or of equal rows, on one target: they are netted there."""
    if keys:
        return builder.route(below, keys)
    return below if append_only else builder.route(below, tuple(below.schema.names))
