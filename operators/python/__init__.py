"""User-defined functions and aggregates in Python, and the processes in which they run."""

from operators.python.calls import call_function
from operators.python.definition import Limits, Package, PythonClass, PythonFunction, package_of
from operators.python.folds import FoldAnswer, fold_events
from operators.python.registered import register
from operators.python.sandbox import FunctionFailed

__all__ = [
    "FoldAnswer",
    "FunctionFailed",
    "Limits",
    "Package",
    "PythonClass",
    "PythonFunction",
    "call_function",
    "fold_events",
    "package_of",
    "register",
]
