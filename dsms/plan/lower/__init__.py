"""Logical nodes as operators: one function a node."""

from dsms.plan.lower import joins, many_inputs, one_input
from dsms.plan.lower.dispatch import lower

__all__ = ["joins", "lower", "many_inputs", "one_input"]
