"""Lowers logical nodes to operators, with one function for each class of nodes."""

from dsms.planner.physical.lower import joins, many_inputs, one_input
from dsms.planner.physical.lower.dispatch import lower

__all__ = ["joins", "lower", "many_inputs", "one_input"]
