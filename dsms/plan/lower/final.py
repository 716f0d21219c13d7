"""Results that are given when they are final."""

from __future__ import annotations

from dataclasses import replace

from dsms.plan import logical
from dsms.plan.builder import Builder, Port
from dsms.plan.lower.dispatch import lower, lowering
from dsms.plan.schema import schema
from operators.final import Final


@lowering.register
def _(node: logical.Final, builder: Builder) -> Port:
    (ready,) = builder.release([lower(node.input, builder)], changes=True)
    found = builder.add(Final(node.bound, node.after), [ready], schema(node))
    return replace(found, partitioned=ready.partitioned)
