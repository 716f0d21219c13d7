"""A lane: one continuous query as physical stages, with its own positions, frontier and state.

Source stage: decode, `before`. Exchange: by the key columns, or by source partition. Target stage: `after`, `output`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import singledispatch

import pyarrow as pa

from dsms.catalog.catalog import Catalog
from dsms.catalog.objects import Query, Source
from dsms.plan import logical
from dsms.sql.bind import plan_of
from operators.filter import Filter
from operators.operator import Operator
from operators.project import Project
from operators.restamp import Restamp
from operators.stamp import Stamp
from operators.stream_output import StreamOutput
from operators.tagger import Tagger


@dataclass(frozen=True)
class Lane:
    """How one query runs. `keys` and `schema` are those of the visible result."""

    id: str
    name: str
    source: Source
    before: tuple[Operator, ...]
    exchange: tuple[str, ...]
    after: tuple[Operator, ...]
    output: StreamOutput
    schema: pa.Schema
    #: Where results go; None for a stream, which has no topic of its own.
    sink: Query | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The key of the result; () when it has none."""
        return self.output.keys

    @property
    def stateful(self) -> tuple[Operator, ...]:
        """The operators of the target stage, in order, the output last."""
        return (*self.after, self.output)


@dataclass(frozen=True)
class FragmentPlan:
    """What one fragment runs: a version of the plan, the partitions of its exchanges, and its lanes by id."""

    version: int
    partitions: int
    lanes: dict[str, Lane] = field(default_factory=dict)


def plan_fragment(catalog: Catalog, partitions: int) -> FragmentPlan:
    """The plan of a catalog: a pure function, so every process that knows the catalog knows the plan."""
    lanes = [compile_lane(found.id, found.name, plan_of(found.name, catalog), found) for found in catalog.queries()]
    return FragmentPlan(catalog.version, partitions, {lane.id: lane for lane in lanes})


def compile_lane(lane_id: str, name: str, node: logical.Node, sink: Query | None = None) -> Lane:
    """The physical stages of a logical plan: what needs no state runs before the exchange where the stream has no
    key."""
    tag = logical.tag_of(node)
    chain = tuple(operators(node))
    return Lane(
        lane_id, name, tag.source,
        before=() if tag.keys else chain, exchange=tag.keys, after=chain if tag.keys else (),
        output=StreamOutput(logical.keys(node), logical.append_only(node)), schema=logical.visible(node), sink=sink,
    )  # fmt: skip


@singledispatch
def operators(node: logical.Node) -> list[Operator]:
    """The operators of a plan, from the source up."""
    raise TypeError(node)


@operators.register
def _(node: logical.Tag) -> list[Operator]:
    return [Tagger(node.keys) if node.keys else Stamp()]


@operators.register
def _(node: logical.Filter) -> list[Operator]:
    return [*operators(node.input), Filter(node.predicate)]


@operators.register
def _(node: logical.Project) -> list[Operator]:
    return [*operators(node.input), Project(node.outputs)]


@operators.register
def _(node: logical.Restamp) -> list[Operator]:
    keys = logical.keys(node)
    return [*operators(node.input), Restamp(keys) if keys else Stamp()]
