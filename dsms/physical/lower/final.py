"""Results that are given when they are final."""

from __future__ import annotations

from dataclasses import replace

from dsms.model import logical
from dsms.model.schema import schema
from dsms.physical.builder import Builder, Port
from dsms.physical.lower.dispatch import lower, lowering
from operators.windows.final import Final


@lowering.register
def _(node: logical.Final, builder: Builder) -> Port:
    (ready,) = builder.release([lower(node.input, builder)], changes=True)
    found = builder.add(Final(node.bound, node.after), [ready], schema(node))
    return replace(found, partitioned=ready.partitioned)
