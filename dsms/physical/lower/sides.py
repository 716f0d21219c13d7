"""The two sides of an operator: on the same targets, or summed."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import pyarrow as pa

from dsms.physical.builder import Builder, Port
from operators.relational.union import Union


def summed(ports: list[Port], columns: pa.Schema, builder: Builder) -> Port:
    found = reduce(lambda left, right: builder.add(Union(), [left, right], columns), ports)
    common = frozenset.intersection(*(port.partitioned for port in ports))
    together = len({builder.leaves([port]) for port in ports}) == 1
    released, ends = together and all(port.released for port in ports), any(port.ends for port in ports)
    return replace(found, partitioned=common, released=released, ends=ends)


def aligned(ports: list[Port], keys: list[tuple[str, ...]]) -> list[Port]:
    """Both ports with rows of equal keys on one target: as one of them is partitioned already, else by all keys."""
    left, right = ports
    to_right = dict(zip(keys[0], keys[1], strict=True))
    for known in sorted(left.partitioned):
        if set(known) <= set(keys[0]):
            wanted = tuple(to_right[key] for key in known)
            return [left, right if wanted in right.partitioned else _sent(right, wanted)]
    to_left = dict(zip(keys[1], keys[0], strict=True))
    for known in sorted(right.partitioned):
        if set(known) <= set(keys[1]):
            return [_sent(left, tuple(to_left[key] for key in known)), right]
    return [_sent(left, keys[0]), _sent(right, keys[1])]


def _sent(port: Port, keys: tuple[str, ...]) -> Port:
    return replace(port, via=keys, partitioned=frozenset({keys}))
