"""Lowers a logical node to a port by its class, and adds vertices for stateless and stateful operators."""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

import pyarrow as pa

from dsms.model import logical
from dsms.model.fingerprint import fingerprint
from dsms.planner.physical.builder import Builder, Port
from dsms.planner.physical.column_bounds import ColumnBounds
from dsms.planner.physical.lower.forgetting import forgetting, limited_keys

_NONE = ColumnBounds()


def lower(node: logical.Node, builder: Builder) -> Port:
    """The port of a node; equal nodes have the same port. A node that another fragment computes is read from its
    link."""
    identity = fingerprint(node)
    if identity not in builder.lowered:
        received = builder.received.get(identity)
        builder.lowered[identity] = (
            lowering(node, builder) if received is None else replace(builder.leaf(received.link), ends=received.ends)
        )
    return builder.lowered[identity]


@singledispatch
def lowering(node: logical.Node, builder: Builder) -> Port:
    """Adds the vertices of a node over the ports of its inputs. Each class of nodes has its implementation."""
    raise TypeError(node)


def stateless(operator: object, below: Port, columns: pa.Schema, builder: Builder) -> Port:
    """Adds a vertex in the stage of its input. Partitioning, release and ends are those of the input."""
    added = builder.add(operator, [below], columns)
    return replace(added, partitioned=below.partitioned, released=below.released, ends=below.ends)


def stateful(
    operator: object,
    below: Port,
    keys: tuple[str, ...],
    columns: pa.Schema,
    builder: Builder,
    known: ColumnBounds = _NONE,
) -> Port:
    """Adds a vertex that reads changes; rows that are equal in `keys` are on one target. Its state is looked up by
    `keys`, so it can drop the state that later rows cannot reach according to the `known` bounds of these columns.
    """
    (ready,) = builder.release([builder.route(below, keys)], changes=True)
    forgetful, ports = forgetting(operator, [ready], limited_keys(operator, keys, known), builder)
    return replace(builder.add(forgetful, ports, columns, single=not keys), partitioned=ready.partitioned)
