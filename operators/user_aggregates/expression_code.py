"""Python code for expressions, with SQL's NULL as None.

Values are Python's int, float, bool and str; a TIMESTAMP is an int in µs, a DATE an int in days. An undefined result,
such as that of a division by zero or the root of a negative number, is NULL. An integer outside its type raises
OverflowError.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import count
from typing import Any
from zlib import crc32

import pyarrow as pa

from operators.core.errors import UserError
from operators.expressions.rendering import to_sql
from operators.expressions.tree import Call, Column, Expression, Interval, Literal
from operators.user_aggregates.rows import LimitReached

#: The most characters of a text that an expression may build.
MAX_TEXT = 1 << 24
_COMPARED = {
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_or_equal": "<=",
    "greater": ">",
    "greater_or_equal": ">=",
}
_COMPLEMENT = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Code:
    """The text of a Python expression, and whether it may be None."""

    text: str
    nullable: bool

    @property
    def simple(self) -> bool:
        """Whether the text, a name or a number, can be repeated at no cost."""
        return self.text.isidentifier() or self.text.lstrip("-").replace(".", "", 1).isdigit()


@dataclass
class ExpressionCoder:
    """Translates expressions; `names` has the code of each column that they may use."""

    names: Mapping[str, Code]
    fresh: Any = field(default_factory=lambda: count())

    def value(self, expression: Expression) -> Code:
        """The code of a value. Raises UserError for a function that bodies of aggregates cannot call."""
        match expression:
            case Column():
                return self.names[expression.name]
            case Literal():
                return Code(_literal(expression.value, expression.type), expression.value is None)
            case Call():
                return self._call(expression)

    def truth(self, expression: Expression) -> str:
        """Code of a bool that says whether a predicate is TRUE."""
        return self._test(expression, wanted=True)

    def _test(self, expression: Expression, *, wanted: bool) -> str:
        """Code of a bool that says whether a predicate is `wanted`; False for NULL."""
        if isinstance(expression, Call):
            name, arguments = expression.function, expression.arguments
            if name in ("and", "or"):
                joined = " and " if (name == "and") == wanted else " or "
                return "(" + joined.join(self._test(part, wanted=wanted) for part in arguments) + ")"
            if name == "not":
                return self._test(arguments[0], wanted=not wanted)
            if name in _COMPARED:
                sign = _COMPARED[name] if wanted else _COMPLEMENT[_COMPARED[name]]
                return self._compared(sign, *arguments)
        code = self.value(expression)
        if wanted:
            return f"({code.text})" if not code.nullable else f"(({code.text}) is True)"
        return f"(not ({code.text}))" if not code.nullable else f"(({code.text}) is False)"

    def _compared(self, sign: str, left: Expression, right: Expression) -> str:
        present, (one, other) = self._null_tests([self.value(left), self.value(right)])
        return "(" + " and ".join([*(f"{text} is not None" for text in present), f"{one} {sign} {other}"]) + ")"

    def _null_tests(self, codes: list[Code]) -> tuple[list[str], list[str]]:
        """Returns the texts to test for None, which evaluate the operands, and for each operand the text that refers to
        its value after the tests. An operand that can never be None is not tested and keeps its text."""
        tested, named = [], []
        for code in codes:
            if not code.nullable:
                named.append(f"({code.text})" if not code.simple else code.text)
            elif code.simple:
                tested.append(code.text)
                named.append(code.text)
            else:
                name = f"t{next(self.fresh)}"
                tested.append(f"({name} := {code.text})")
                named.append(name)
        return tested, named

    def _call(self, call: Call) -> Code:
        name, arguments = call.function, call.arguments
        if name in ("and", "or", "not", *_COMPARED):
            codes = [self.value(argument) for argument in arguments]
            truth = self._test(call, wanted=True)
            if not any(code.nullable for code in codes):
                return Code(truth, False)
            return Code(f"(True if {truth} else False if {self._test(call, wanted=False)} else None)", True)
        if (special := _SPECIAL.get(name)) is not None:
            return special(self, call)
        if (strict := _STRICT.get(name)) is None:
            have = ", ".join(sorted((*_SPECIAL, *_STRICT, *_COMPARED, "and", "or", "not")))
            raise UserError(
                f'function "{name}" is not supported in the body of an aggregate, in "{to_sql(call)}"',
                hint=f"compute it outside and pass it as an argument, or use one of: {have}",
            )
        arguments = _as_python_mixes(name, arguments)
        tested, named = self._null_tests([self.value(argument) for argument in arguments])
        made = strict(self, call, named)
        if not tested:
            return made
        absent = " or ".join(f"{text} is None" for text in tested)
        return Code(f"(None if {absent} else {made.text})", True)

    def name_for(self, text: str) -> tuple[str, str]:
        """The text to write at the first use of a value, and the text for further uses."""
        if Code(text, False).simple:
            return text, text
        name = f"t{next(self.fresh)}"
        return f"({name} := {text})", name

    def in_range(self, text: str, type_: pa.DataType) -> str:
        """The code of an integer with a check that it fits its type."""
        low, high = bounds(type_)
        first, again = self.name_for(text)
        return f"({again} if {low} <= {first} <= {high} else out_of_range({again}))"


def _as_python_mixes(name: str, arguments: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """The operands of arithmetic. If one is a float and the other an integer, the integer loses its cast to float,
    because Python converts it itself."""
    if name not in ("add", "subtract", "multiply", "divide"):
        return arguments
    bare = [_integer_below(argument) for argument in arguments]
    return tuple(
        argument if inner is None or bare[1 - at] is not None else inner
        for at, (argument, inner) in enumerate(zip(arguments, bare, strict=True))
    )


def _integer_below(expression: Expression) -> Expression | None:
    """The integer operand of a cast to float; None for all other expressions."""
    cast = isinstance(expression, Call) and expression.function in ("widen", "cast")
    if not cast or not pa.types.is_floating(expression.type):
        return None
    assert isinstance(expression, Call)
    return expression.arguments[0] if pa.types.is_integer(expression.arguments[0].type) else None


def bounds(type_: pa.DataType) -> tuple[int, int]:
    """The least and the greatest integer of a type."""
    bits = type_.bit_width if pa.types.is_integer(type_) else 64
    if pa.types.is_unsigned_integer(type_):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def _literal(value: object, type_: pa.DataType) -> str:
    match value:
        case None | bool() | int() | str():
            return repr(value)
        case float():
            return repr(value) if math.isfinite(value) else f"float({str(value)!r})"
        case Decimal():
            return repr(float(value))
        case datetime():
            return repr(round((value.replace(tzinfo=UTC) - _EPOCH).total_seconds() * 1_000_000))
        case Interval() if not value.months:  # times are numbers of microseconds
            return repr(value.days * 86_400_000_000 + value.microseconds)
        case date():
            return repr((value - _EPOCH.date()).days)
    raise UserError(f"the constant {to_sql(Literal(value, type_))} is not supported in the body of an aggregate")


# --- functions that handle NULL themselves


def _is_null(coder: ExpressionCoder, call: Call) -> Code:
    code = coder.value(call.arguments[0])
    return Code(f"({code.text} is None)" if code.nullable else "False", False)


def _is_not_null(coder: ExpressionCoder, call: Call) -> Code:
    code = coder.value(call.arguments[0])
    return Code(f"({code.text} is not None)" if code.nullable else "True", False)


def _is_boolean(wanted: bool, *, negated: bool) -> Callable[[ExpressionCoder, Call], Code]:
    def made(coder: ExpressionCoder, call: Call) -> Code:
        code = coder.value(call.arguments[0])
        return Code(f"(({code.text}) is {'not ' if negated else ''}{wanted})", False)

    return made


def _distinct(sign: str) -> Callable[[ExpressionCoder, Call], Code]:
    def made(coder: ExpressionCoder, call: Call) -> Code:
        left, right = (coder.value(argument) for argument in call.arguments)
        return Code(f"({left.text} {sign} {right.text})", False)

    return made


def _case(coder: ExpressionCoder, call: Call) -> Code:
    *branches, default = call.arguments
    otherwise = coder.value(default)
    text, nullable = otherwise.text, otherwise.nullable
    for condition, result in reversed(list(zip(branches[::2], branches[1::2], strict=True))):
        code = coder.value(result)
        text, nullable = f"({code.text} if {coder.truth(condition)} else {text})", nullable or code.nullable
    return Code(text, nullable)


def _coalesce(coder: ExpressionCoder, call: Call) -> Code:
    codes = [coder.value(argument) for argument in call.arguments]
    text, nullable = codes[-1].text, codes[-1].nullable
    for code in reversed(codes[:-1]):
        if not code.nullable:
            text, nullable = code.text, False
            continue
        first, again = coder.name_for(code.text)
        text = f"({again} if {first} is not None else {text})"
    return Code(text, nullable)


def _nullif(coder: ExpressionCoder, call: Call) -> Code:
    left, right = (coder.value(argument) for argument in call.arguments)
    first, again = coder.name_for(left.text)
    return Code(f"(None if {first} == {right.text} else {again})", True)


def _extreme(function: str) -> Callable[[ExpressionCoder, Call], Code]:
    def made(coder: ExpressionCoder, call: Call) -> Code:
        codes = [coder.value(argument) for argument in call.arguments]
        listed = ", ".join(code.text for code in codes)
        if not any(code.nullable for code in codes):
            return Code(f"{function}({listed})", False)
        return Code(f"present_{function}({listed})", all(code.nullable for code in codes))

    return made


def _in(coder: ExpressionCoder, call: Call) -> Code:
    value, *choices = call.arguments
    present = [choice for choice in choices if not (isinstance(choice, Literal) and choice.value is None)]
    texts = ", ".join(coder.value(choice).text for choice in present)
    tested, (named,) = coder._null_tests([coder.value(value)])
    found = f"{named} in ({texts},)" if present else "False"
    found = f"({found})" if len(present) == len(choices) else f"(True if {found} else None)"
    nullable = bool(tested) or len(present) < len(choices)
    return Code(f"(None if {tested[0]} is None else {found})" if tested else found, nullable)


def _concat(coder: ExpressionCoder, call: Call) -> Code:
    parts = ", ".join(coder.value(argument).text for argument in call.arguments)
    return Code(f"joined({parts})", False)


_SPECIAL: dict[str, Callable[[ExpressionCoder, Call], Code]] = {
    "is_null": _is_null,
    "is_not_null": _is_not_null,
    "is_true": _is_boolean(True, negated=False),
    "is_not_true": _is_boolean(True, negated=True),
    "is_false": _is_boolean(False, negated=False),
    "is_not_false": _is_boolean(False, negated=True),
    "distinct": _distinct("!="),
    "not_distinct": _distinct("=="),
    "case": _case,
    "coalesce": _coalesce,
    "nullif": _nullif,
    "greatest": _extreme("max"),
    "least": _extreme("min"),
    "in": _in,
    "concat": _concat,
}

# --- functions that return NULL if an argument is NULL

Strict = Callable[[ExpressionCoder, Call, list[str]], Code]


def _operator(sign: str) -> Strict:
    def made(coder: ExpressionCoder, call: Call, named: list[str]) -> Code:
        text = f"({named[0]} {sign} {named[1]})"
        return Code(coder.in_range(text, call.type) if pa.types.is_integer(call.type) else text, False)

    return made


def _divide(coder: ExpressionCoder, call: Call, named: list[str]) -> Code:
    divisor = call.arguments[1]
    sure = isinstance(divisor, Literal) and bool(divisor.value)
    if pa.types.is_integer(call.type):
        return (
            Code(coder.in_range(f"quotient({named[0]}, {named[1]})", call.type), False)
            if sure
            else (Code(f"quotient({named[0]}, {named[1]})", True))
        )
    if sure:
        return Code(f"({named[0]} / {named[1]})", False)
    first, again = coder.name_for(named[1])
    return Code(f"({named[0]} / {again} if {first} else None)", True)


def _modulo(coder: ExpressionCoder, call: Call, named: list[str]) -> Code:
    divisor = call.arguments[1]
    sure = isinstance(divisor, Literal) and bool(divisor.value)
    if sure and pa.types.is_integer(call.type) and int(named[1]) > 0:  # SQL's remainder has the sign of the dividend
        if _never_negative(call.arguments[0]):
            return Code(f"({named[0]} % {named[1]})", False)
        first, again = coder.name_for(named[0])
        return Code(f"({again} % {named[1]} if {first} >= 0 else -(-{again} % {named[1]}))", False)
    return Code(f"remainder({named[0]}, {named[1]})", not sure)


def _never_negative(value: Expression) -> bool:
    while isinstance(value, Call) and value.function == "widen":
        value = value.arguments[0]
    return isinstance(value, Call) and value.function in ("hash", "length")


def _function(name: str, *, nullable: bool = False) -> Strict:
    return lambda coder, call, named: Code(f"{name}({', '.join(named)})", nullable)


def _integer_checked(template: str) -> Strict:
    def made(coder: ExpressionCoder, call: Call, named: list[str]) -> Code:
        text = template.format(*named)
        return Code(coder.in_range(text, call.type) if pa.types.is_integer(call.type) else text, False)

    return made


def _cast(coder: ExpressionCoder, call: Call, named: list[str]) -> Code:
    source, target = call.arguments[0].type, call.type
    number = pa.types.is_integer(source) or pa.types.is_floating(source) or pa.types.is_boolean(source)
    if pa.types.is_floating(target) and number:
        return Code(named[0] if pa.types.is_floating(source) else f"float({named[0]})", False)
    if pa.types.is_integer(target) and number:
        text = f"round({named[0]})" if pa.types.is_floating(source) else f"int({named[0]})"
        wide = pa.types.is_integer(source) and source.bit_width < target.bit_width
        return Code(named[0] if wide else coder.in_range(text, target), False)
    if pa.types.is_string(target) and (pa.types.is_integer(source) or pa.types.is_string(source)):
        return Code(f"str({named[0]})", False)
    if pa.types.is_string(target) and pa.types.is_boolean(source):
        return Code(f"('true' if {named[0]} else 'false')", False)
    if pa.types.is_boolean(target) and number:
        return Code(f"bool({named[0]})", False)
    if pa.types.is_timestamp(target) and pa.types.is_date(source):
        return Code(f"({named[0]} * 86400000000)", False)
    if source == target:
        return Code(named[0], False)
    raise UserError(
        f'"{to_sql(call)}" is not supported in the body of an aggregate',
        hint="cast the value outside and pass it as an argument",
    )


_STRICT: dict[str, Strict] = {
    "add": _operator("+"),
    "subtract": _operator("-"),
    "multiply": _operator("*"),
    "divide": _divide,
    "modulo": _modulo,
    "negate": _integer_checked("(-{0})"),
    "abs": _integer_checked("abs({0})"),
    "sign": _integer_checked("(({0} > 0) - ({0} < 0))"),
    "floor": _function("floor"),
    "ceil": _function("ceil"),
    "trunc": _function("trunc"),
    "round": _function("rounded"),
    "sqrt": _function("root", nullable=True),
    "ln": _function("logarithm", nullable=True),
    "exp": _function("exponential", nullable=True),
    "power": _function("power", nullable=True),
    "bit_and": _operator("&"),
    "bit_or": _operator("|"),
    "bit_xor": _operator("^"),
    "shift_left": _function("shifted_left", nullable=True),
    "shift_right": _operator(">>"),
    "upper": lambda coder, call, named: Code(f"{named[0]}.upper()", False),
    "lower": lambda coder, call, named: Code(f"{named[0]}.lower()", False),
    "length": _function("len"),
    "starts_with": lambda coder, call, named: Code(f"{named[0]}.startswith({named[1]})", False),
    "ends_with": lambda coder, call, named: Code(f"{named[0]}.endswith({named[1]})", False),
    "contains": lambda coder, call, named: Code(f"({named[1]} in {named[0]})", False),
    "concat_strict": _function("joined"),
    "epoch_ms": lambda coder, call, named: Code(f"({named[0]} // 1000)", False),
    "epoch_us": lambda coder, call, named: Code(named[0], False),
    "hash": _function("hashed"),
    "cast": _cast,
    "try_cast": _cast,
    "widen": _cast,
}


# --- functions that generated code may call


def _out_of_range(value: object) -> None:
    raise OverflowError(f"{value} is outside the range of its type")


def _quotient(left: int, right: int) -> int | None:
    if not right:
        return None
    whole = abs(left) // abs(right)
    return whole if (left < 0) == (right < 0) else -whole


def _remainder(left: float, right: float) -> float | None:
    if not right:
        return None
    if isinstance(left, int) and isinstance(right, int):
        return abs(left) % abs(right) * (1 if left >= 0 else -1)
    return math.fmod(left, right)


def _rounded(value: float, digits: int = 0) -> float:
    """Half away from zero, as SQL does."""
    if isinstance(value, int):
        return value
    scaled = abs(value) * 10.0**digits
    return math.copysign(math.floor(scaled + 0.5) / 10.0**digits, value) if math.isfinite(scaled) else value


def _whole(function: Callable[[float], int]) -> Callable[[float], float]:
    def made(value: float) -> float:
        return value if isinstance(value, int) or not math.isfinite(value) else float(function(value))

    return made


def _partly(function: Callable[..., float]) -> Callable[..., float | None]:
    """The function with the result None (NULL) where it is undefined."""

    def made(*values: float) -> float | None:
        try:
            result = function(*values)
        except (ValueError, OverflowError, ZeroDivisionError):
            return None
        return None if isinstance(result, complex) else float(result)

    return made


def _shifted_left(value: int, places: int) -> int | None:
    return value << places if 0 <= places < 64 else None


def _joined(*parts: object) -> str:
    text = "".join(_as_text(part) for part in parts if part is not None)
    if len(text) > MAX_TEXT:
        raise LimitReached(f"a text is longer than {MAX_TEXT:,} characters")
    return text


def _as_text(part: object) -> str:
    return part if isinstance(part, str) else str(part).lower() if isinstance(part, bool) else str(part)


def _hashed(value: object, seed: int = 0) -> int:
    """A number from 0 to 2^31 - 1 that depends only on the value and the seed, in every process and version."""
    text = value if isinstance(value, str) else repr(value)
    # CRC is linear: without multiplying, the hashes of two seeds would differ by the same bits for every value
    mixed = (crc32(text.encode()) ^ (seed * 0x9E3779B1)) * 0xBF58476D1CE4E5B9 % 2**64
    mixed = (mixed ^ (mixed >> 31)) * 0x94D049BB133111EB % 2**64
    return (mixed ^ (mixed >> 29)) % 2**31


def _present(function: Callable[..., Any]) -> Callable[..., Any]:
    def made(*values: Any) -> Any:
        present = [value for value in values if value is not None]
        return function(present) if present else None

    return made


HELPERS: Mapping[str, object] = {
    "out_of_range": _out_of_range,
    "quotient": _quotient,
    "remainder": _remainder,
    "rounded": _rounded,
    "floor": _whole(math.floor),
    "ceil": _whole(math.ceil),
    "trunc": _whole(math.trunc),
    "root": _partly(math.sqrt),
    "logarithm": _partly(math.log),
    "exponential": _partly(math.exp),
    "power": _partly(pow),
    "shifted_left": _shifted_left,
    "joined": _joined,
    "hashed": _hashed,
    "present_max": _present(max),
    "present_min": _present(min),
    "LimitReached": LimitReached,
    "abs": abs,
    "bool": bool,
    "float": float,
    "int": int,
    "len": len,
    "max": max,
    "min": min,
    "range": range,
    "round": round,
    "str": str,
}
