"""Logical nodes as operators: one function a node."""

from dsms.physical.lower import joins, many_inputs, one_input
from dsms.physical.lower.dispatch import lower

__all__ = ["joins", "lower", "many_inputs", "one_input"]
