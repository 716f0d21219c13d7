"""The records of a source that keep what is promised of them."""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

import pyarrow as pa

from dsms.model import logical
from dsms.physical.builder import Builder, Port
from dsms.physical.lower.dispatch import stateless
from dsms.physical.lower.sides import aligned
from operators.constraints.clustered import Clustered
from operators.constraints.referenced import Referenced
from operators.expressions import Column
from operators.relational.project import Project


def kept(tag: logical.StreamScan, builder: Builder) -> Port:
    """The records of a tag's source; each promise is asked of what kept those before it."""
    port = builder.leaf(tag.source)
    for promise in tag.promises:
        port = _keeping(promise, port, tag, builder)
    return port


@singledispatch
def _keeping(promise: object, port: Port, tag: logical.StreamScan, builder: Builder) -> Port:
    raise TypeError(promise)


@_keeping.register
def _(promise: logical.Cluster, port: Port, tag: logical.StreamScan, builder: Builder) -> Port:
    (ready,) = builder.release([builder.route(port, (promise.column,))])
    found = builder.add(Clustered(promise.column, promise.within), [ready], port.schema)
    clustered = replace(found, partitioned=ready.partitioned)
    builder.clustered[tag.source.number, promise.column] = clustered
    return clustered


@_keeping.register
def _(promise: logical.Reference, port: Port, tag: logical.StreamScan, builder: Builder) -> Port:
    partners = kept(promise.other, builder)
    field = partners.schema.field(promise.theirs)
    column = ((promise.theirs, Column(field.name, field.type, field.nullable)),)
    named = stateless(Project(column), partners, pa.schema([field]), builder)
    theirs = replace(named, partitioned=partners.renamed({promise.theirs: promise.theirs}))
    ready = builder.release(aligned([port, theirs], [(promise.column,), (promise.theirs,)]))
    operator = Referenced(promise.column, promise.theirs, promise.within, promise.other.source.name)
    return replace(builder.add(operator, ready, port.schema), partitioned=ready[0].partitioned)
