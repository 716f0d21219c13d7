"""Scalar expressions: a typed tree, a catalogue of functions and their evaluation over frames."""

from operators.expressions.build import call, cast, coerce, column
from operators.expressions.evaluate import compile_expression, evaluate, faultless
from operators.expressions.function import Compiled, Function
from operators.expressions.functions import FUNCTIONS
from operators.expressions.functions.comparison import MIRRORED, MIRRORED_ORDERS
from operators.expressions.rendering import to_sql, type_name
from operators.expressions.tree import (
    Call,
    Column,
    DefinedCall,
    Expression,
    Interval,
    Literal,
    calls_user_function,
    columns,
    walk,
)
from operators.expressions.value_sizes import LONGEST, LONGEST_CONSTANT

__all__ = [
    "FUNCTIONS",
    "LONGEST",
    "LONGEST_CONSTANT",
    "MIRRORED",
    "MIRRORED_ORDERS",
    "Call",
    "Column",
    "Compiled",
    "DefinedCall",
    "Expression",
    "Function",
    "Interval",
    "Literal",
    "call",
    "calls_user_function",
    "cast",
    "coerce",
    "column",
    "columns",
    "compile_expression",
    "evaluate",
    "faultless",
    "to_sql",
    "type_name",
    "walk",
]
