"""The catalogue of scalar functions."""

from operators.expressions.function import Function
from operators.expressions.functions.arithmetic import ARITHMETIC
from operators.expressions.functions.arrays import ARRAYS
from operators.expressions.functions.comparison import COMPARISON
from operators.expressions.functions.conditional import CONDITIONAL
from operators.expressions.functions.conversion import CONVERSION
from operators.expressions.functions.json import JSON
from operators.expressions.functions.json_building import BUILDING
from operators.expressions.functions.logic import LOGIC
from operators.expressions.functions.math import NUMBERS
from operators.expressions.functions.nested import NESTED
from operators.expressions.functions.patterns import PATTERNS
from operators.expressions.functions.sketches import SKETCHES
from operators.expressions.functions.text import TEXTS
from operators.expressions.functions.time import TIME

FUNCTIONS: dict[str, Function] = {
    **COMPARISON,
    **LOGIC,
    **CONDITIONAL,
    **ARITHMETIC,
    **NUMBERS,
    **TEXTS,
    **PATTERNS,
    **TIME,
    **JSON,
    **BUILDING,
    **NESTED,
    **ARRAYS,
    **CONVERSION,
    **SKETCHES,
}

__all__ = ["FUNCTIONS"]
