"""Logical nodes as operators: the port of a node, and the two ways in which most operators stand."""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

import pyarrow as pa

from dsms.model import logical
from dsms.model.fingerprint import fingerprint
from dsms.physical.builder import Builder, Port
from dsms.physical.column_bounds import Bounds
from dsms.physical.lower.forgetting import by_key, forgetting

_NONE = Bounds()


def lower(node: logical.Node, builder: Builder) -> Port:
    """The port of a node; equal nodes have one."""
    identity = fingerprint(node)
    if identity not in builder.lowered:
        builder.lowered[identity] = lowering(node, builder)
    return builder.lowered[identity]


@singledispatch
def lowering(node: logical.Node, builder: Builder) -> Port:
    """The vertices of a kind of node, over the ports of its inputs."""
    raise TypeError(node)


def stateless(operator: object, below: Port, columns: pa.Schema, builder: Builder) -> Port:
    """A vertex beside its input: what is known of the input holds for it."""
    found = builder.add(operator, [below], columns)
    return replace(found, partitioned=below.partitioned, released=below.released, ends=below.ends)


def stateful(
    operator: object, below: Port, keys: tuple[str, ...], columns: pa.Schema, builder: Builder, known: Bounds = _NONE
) -> Port:  # fmt: skip
    """A vertex that takes changes, with rows that are equal in `keys` on one target. Its state is looked up by these:
    it forgets by what is `known` of them."""
    (ready,) = builder.release([builder.route(below, keys)], changes=True)
    forgetful, ports = forgetting(operator, [ready], by_key(operator, keys, known), builder)
    return replace(builder.add(forgetful, ports, columns, single=not keys), partitioned=ready.partitioned)
