"""A dataflow: the operators of a lane in topological order, cut into stages by exchanges.

Stage 0 runs where records are read, without state. The stages after it run on the targets: every vertex has its state
on each of them, and an exchange brings the elements that belong together to one target.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa

from operators.delta import Delta, polars_schema

Keys = tuple[str, ...]
#: By the hash of columns (none: all to target 0), by source partition, to the same target again, or to every target.
Routing = Keys | Literal["source", "stay", "all"]


@dataclass(frozen=True)
class Exchange:
    """What the vertex `producer` gives, routed before `stage`."""

    producer: int
    stage: int
    by: Routing


@dataclass(frozen=True)
class Feed:
    """An input of a vertex: the output of an earlier vertex of its stage, or what an exchange brought."""

    vertex: int
    exchange: int | None = None


@dataclass(frozen=True)
class Vertex:
    """An operator in its place. A leaf has none: its output are the elements of the source `leaf`.

    `single`: it runs on target 0 alone.
    """

    operator: Any
    inputs: tuple[Feed, ...]
    stage: int
    schema: pa.Schema
    leaf: int | None = None
    single: bool = False

    def empty(self) -> Delta:
        """No element of its output."""
        return Delta.empty(polars_schema(self.schema))


@dataclass(frozen=True)
class Dataflow:
    """The vertices, inputs before consumers, and the exchanges between them. The last vertex is the output."""

    vertices: tuple[Vertex, ...]
    exchanges: tuple[Exchange, ...]

    @cached_property
    def stages(self) -> int:
        """The number of the last stage."""
        return max(vertex.stage for vertex in self.vertices)

    def sent(self, stage: int) -> list[int]:
        """The exchanges that a stage fills."""
        return [at for at, one in enumerate(self.exchanges) if self.vertices[one.producer].stage == stage]

    @cached_property
    def leaves(self) -> tuple[frozenset[int], ...]:
        """The leaves that each vertex depends on."""
        found: list[frozenset[int]] = []
        for vertex in self.vertices:
            own = frozenset() if vertex.leaf is None else frozenset({vertex.leaf})
            found.append(own.union(*(found[feed.vertex] for feed in vertex.inputs)))
        return tuple(found)
