"""Restricts a plan to the elements of its sources from a start instant on."""

from __future__ import annotations

from dataclasses import replace

from dsms.model import logical
from dsms.model.properties import inputs
from dsms.model.replace_inputs import with_inputs


def from_instant(node: logical.Node, start: int | None) -> logical.Node:
    """The plan over the elements of its streams that begin at `start` or later. Tables are read completely, because
    their rows are facts, not events. If a scan already has a start, the later of the two is used.
    """
    if start is None:
        return node
    if isinstance(node, logical.StreamScan):
        latest = start if node.start is None else max(start, node.start)
        return node if node.source.table else replace(node, start=latest)
    return with_inputs(node, tuple(from_instant(below, start) for below in inputs(node)))
