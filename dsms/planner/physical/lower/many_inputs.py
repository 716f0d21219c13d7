"""Lowers nodes with several inputs: unions, set operations, recursion and synchronisation."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from dsms.model import logical
from dsms.model.schema import schema
from dsms.planner.physical.builder import SINGLE, Builder, Port
from dsms.planner.physical.column_bounds import bounds
from dsms.planner.physical.lower.dispatch import lower, lowering, stateless
from dsms.planner.physical.lower.forgetting import forgetting, limited_keys
from dsms.planner.physical.lower.sides import aligned, union_all
from operators.expressions import Column
from operators.recursion.recursion import Recursion
from operators.relational.project import Project
from operators.relational.set_operation import SetOperation
from operators.sync.sync_points import Periodic
from operators.sync.synchronise import EventSync, PeriodicSync
from operators.sync.with_clock import WithClock


@lowering.register
def _(node: logical.Sync, builder: Builder) -> Port:
    below = lower(node.input, builder)
    if isinstance(node.points, Periodic):
        periodic = stateless(PeriodicSync(node.points), below, schema(node), builder)
        return replace(periodic, released=False)
    events, clock = _divided_points(node.points)
    everywhere = replace(lower(events, builder), via="all")
    leaves = builder.leaves([below, everywhere])
    (points,) = builder.release([everywhere], changes=True, leaves=leaves)
    synchronised = builder.add(EventSync(clock), [*builder.release([below], leaves=leaves), points], schema(node))
    return replace(synchronised, partitioned=below.partitioned, ends=below.ends, released=False)


def _divided_points(points: logical.Node) -> tuple[logical.Node, Periodic | None]:
    """The relation whose new rows are points, and the points of the clock that are united with it."""
    if isinstance(points, logical.Apply) and isinstance(points.function, WithClock):
        return points.input, points.function.points
    return points, None


@lowering.register
def _(node: logical.Union, builder: Builder) -> Port:
    columns = schema(node)
    branches = [_rename(lower(branch, builder), columns, builder) for branch in node.inputs]
    return union_all(branches, columns, builder)


def _rename(port: Port, columns: pa.Schema, builder: Builder) -> Port:
    """The port with the column names of a union or set operation."""
    if port.schema.names == columns.names:
        return port
    pairs = zip(columns, port.schema, strict=True)
    outputs = tuple((new.name, Column(old.name, old.type, old.nullable)) for new, old in pairs)
    names = dict(zip(port.schema.names, columns.names, strict=True))
    return replace(stateless(Project(outputs), port, columns, builder), partitioned=port.renamed(names))


@lowering.register
def _(node: logical.Recursion, builder: Builder) -> Port:
    ports = [builder.route(lower(below, builder), ()) for below in node.inputs]
    operator = Recursion(node.name, node.relations, node.rules, node.output)
    added = builder.add(operator, builder.release(ports, changes=True), schema(node), single=True)
    return replace(added, partitioned=SINGLE)


@lowering.register
def _(node: logical.SetOperation, builder: Builder) -> Port:
    columns = schema(node)
    names = tuple(columns.names)
    sides = [_rename(lower(side, builder), columns, builder) for side in (node.left, node.right)]
    ready = builder.release(aligned(sides, [names, names]), changes=True)
    operator = SetOperation(node.kind)
    forgetful, ports = forgetting(operator, ready, limited_keys(operator, names, bounds(node)), builder)
    return replace(builder.add(forgetful, ports, columns), partitioned=ready[0].partitioned)
