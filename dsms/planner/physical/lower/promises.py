"""Lowers a scan to those records of its source that keep the promises."""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

import msgspec
import pyarrow as pa

from dsms.model import logical
from dsms.planner.physical.builder import Builder, Port
from dsms.planner.physical.lower.dispatch import stateless
from dsms.planner.physical.lower.sides import aligned
from operators.constraints.clustered import Clustered
from operators.constraints.referenced import Referenced
from operators.expressions import Column
from operators.relational.project import Project
from operators.streams.from_offsets import FromOffsets


def checked_records(tag: logical.StreamScan, builder: Builder) -> Port:
    """The port of the records of a scan's source that keep all promises. Records that break one promise are not checked
    for the next.
    """
    port = _records(tag, builder)
    for promise in tag.promises:
        port = _check(promise, port, tag, builder)
    return port


def _records(tag: logical.StreamScan, builder: Builder) -> Port:
    """The port of the records of a scan's source, from the scan's first offsets on."""
    if not tag.first:
        return builder.leaf(tag.source)
    first = dict(tag.first)
    port = builder.leaf(msgspec.structs.replace(tag.source, start={**tag.source.start, **first}))
    return stateless(FromOffsets(tag.first), port, port.schema, builder)


@singledispatch
def _check(promise: object, port: Port, tag: logical.StreamScan, builder: Builder) -> Port:
    raise TypeError(promise)


@_check.register
def _(promise: logical.Cluster, port: Port, tag: logical.StreamScan, builder: Builder) -> Port:
    (ready,) = builder.release([builder.route(port, (promise.column,))])
    checked = builder.add(Clustered(promise.column, promise.within), [ready], port.schema)
    clustered = replace(checked, partitioned=ready.partitioned)
    builder.clustered[tag.source.number, promise.column] = clustered
    return clustered


@_check.register
def _(promise: logical.Reference, port: Port, tag: logical.StreamScan, builder: Builder) -> Port:
    partners = checked_records(promise.other, builder)
    field = partners.schema.field(promise.theirs)
    output = ((promise.theirs, Column(field.name, field.type, field.nullable)),)
    projected = stateless(Project(output), partners, pa.schema([field]), builder)
    theirs = replace(projected, partitioned=partners.renamed({promise.theirs: promise.theirs}))
    ready = builder.release(aligned([port, theirs], [(promise.column,), (promise.theirs,)]))
    operator = Referenced(promise.column, promise.theirs, promise.within, promise.other.source.as_registered.name)
    return replace(builder.add(operator, ready, port.schema), partitioned=ready[0].partitioned)
