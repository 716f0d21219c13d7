"""The catalogue of scalar functions."""

from operators.expressions.function import Function
from operators.expressions.functions.arithmetic import ARITHMETIC
from operators.expressions.functions.comparison import COMPARISON
from operators.expressions.functions.conditional import CONDITIONAL
from operators.expressions.functions.conversion import CONVERSION
from operators.expressions.functions.logic import LOGIC

FUNCTIONS: dict[str, Function] = {**COMPARISON, **LOGIC, **ARITHMETIC, **CONDITIONAL, **CONVERSION}

__all__ = ["FUNCTIONS"]
