"""The canonical form of a plan, for comparing plans, with one function for each class of nodes."""

from dsms.planner.optimizer.view_matching.canonical_form import groups, joins, partitions, single_rows
from dsms.planner.optimizer.view_matching.canonical_form.form import CanonicalForm, canonical_form, digest
from dsms.planner.optimizer.view_matching.canonical_form.groups import RANK, signature

__all__ = [
    "RANK", "CanonicalForm", "canonical_form", "digest", "groups", "joins", "partitions", "signature", "single_rows",
]  # fmt: skip
