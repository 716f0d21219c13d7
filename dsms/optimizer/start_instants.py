"""Start positions: a plan over the elements of its sources from an instant on."""

from __future__ import annotations

from dataclasses import replace

from dsms.model import logical
from dsms.model.properties import inputs
from dsms.model.rebuild import with_inputs


def started(node: logical.Node, start: int | None) -> logical.Node:
    """The plan over what its streams bring from an instant on. Tables are read as a whole: they are what is so, not
    what happens. Of two starts the later counts."""
    if start is None:
        return node
    if isinstance(node, logical.StreamScan):
        begun = start if node.start is None else max(start, node.start)
        return node if node.source.table else replace(node, start=begun)
    return with_inputs(node, tuple(started(one, start) for one in inputs(node)))
