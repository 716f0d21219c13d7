"""Combines the inputs of an operator: aligns two inputs on the same targets, or unites inputs."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import pyarrow as pa

from dsms.planner.physical.builder import Builder, Port
from operators.relational.union import Union


def union_all(ports: list[Port], columns: pa.Schema, builder: Builder) -> Port:
    """The union of ports with equal columns. It has the partitionings that all ports have, and is released only if all
    ports are released and have the same frontier.
    """
    union = reduce(lambda left, right: builder.add(Union(), [left, right], columns), ports)
    common = frozenset.intersection(*(port.partitioned for port in ports))
    same_frontier = len({builder.leaves([port]) for port in ports}) == 1
    released, ends = same_frontier and all(port.released for port in ports), any(port.ends for port in ports)
    return replace(union, partitioned=common, released=released, ends=ends)


def aligned(ports: list[Port], keys: list[tuple[str, ...]]) -> list[Port]:
    """Both ports, exchanged such that rows with equal keys are on one target.

    `keys` are the key columns of the left port and those of the right port. If a port is already partitioned by some of
    its keys, only the other one is routed, by the corresponding columns. Otherwise both are routed by all keys.
    """
    left, right = ports
    to_right = dict(zip(keys[0], keys[1], strict=True))
    for known in sorted(left.partitioned):
        if set(known) <= set(keys[0]):
            wanted = tuple(to_right[key] for key in known)
            return [left, right if wanted in right.partitioned else _routed(right, wanted)]
    to_left = dict(zip(keys[1], keys[0], strict=True))
    for known in sorted(right.partitioned):
        if set(known) <= set(keys[1]):
            return [_routed(left, tuple(to_left[key] for key in known)), right]
    return [_routed(left, keys[0]), _routed(right, keys[1])]


def _routed(port: Port, keys: tuple[str, ...]) -> Port:
    return replace(port, via=keys, partitioned=frozenset({keys}))
