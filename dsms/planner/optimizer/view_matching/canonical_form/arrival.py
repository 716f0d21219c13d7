"""Names the order in which rows arrive, for nodes whose result depends on it."""

from __future__ import annotations

from dsms.model import logical
from dsms.model.properties import append_only
from dsms.planner.optimizer.view_matching.canonical_form.form import CanonicalForm, digest, in_order


def arrival(node: logical.Node, form: CanonicalForm) -> str:
    """A name for the order in which the rows of a node arrive; `form` is the node's canonical form.

    σ, π and windows leave the order of the rows of their input as it is. If rows may leave, the output columns belong
    to the name: a row that changes only in a column that is left out would not arrive again.
    """
    columns = [] if append_only(node) else in_order(form.outputs.values())
    return digest(_below_single_rows(node), columns)


def _below_single_rows(node: logical.Node) -> logical.Node:
    while isinstance(node, logical.Filter | logical.Project | logical.TimeWindow | logical.Assign):
        node = node.input
    return node
