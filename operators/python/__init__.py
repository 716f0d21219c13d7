"""Functions that users wrote in Python, and the processes in which they run."""

from operators.python.calls import call_function
from operators.python.definition import Limits, Package, PythonFunction, package_of
from operators.python.registered import register
from operators.python.sandbox import FunctionFailed

__all__ = ["FunctionFailed", "Limits", "Package", "PythonFunction", "call_function", "package_of", "register"]
