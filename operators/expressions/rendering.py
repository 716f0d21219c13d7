"""Renders expressions for EXPLAIN and fault messages as SQL that DuckDB understands if it has the functions."""

import datetime
import json
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa

from operators.core.distinct_type import DistinctType
from operators.core.quoting import quoted_identifier, quoted_text
from operators.expressions.tree import Call, Column, Expression, Interval, Literal
from operators.expressions.types import TYPES

BINARY: dict[str, tuple[str, int]] = {
    "or": ("OR", 1),
    "and": ("AND", 2),
    "equal": ("=", 4),
    "not_equal": ("<>", 4),
    "less": ("<", 4),
    "less_or_equal": ("<=", 4),
    "greater": (">", 4),
    "greater_or_equal": (">=", 4),
    "distinct": ("IS DISTINCT FROM", 4),
    "not_distinct": ("IS NOT DISTINCT FROM", 4),
    "like": ("LIKE", 4),
    "ilike": ("ILIKE", 4),
    "bit_or": ("|", 5),
    "bit_and": ("&", 5),
    "shift_left": ("<<", 5),
    "shift_right": (">>", 5),
    "concat_strict": ("||", 5),
    "add": ("+", 6),
    "subtract": ("-", 6),
    "multiply": ("*", 7),
    "divide": ("/", 7),
    "modulo": ("%", 7),
}
PREFIX_OPERATORS = {"not": ("NOT ", 3), "negate": ("-", 8), "bit_not": ("~", 8)}
POSTFIX = {
    "is_null": "IS NULL",
    "is_not_null": "IS NOT NULL",
    "is_true": "IS TRUE",
    "is_false": "IS FALSE",
    "is_not_true": "IS NOT TRUE",
    "is_not_false": "IS NOT FALSE",
}
_ATOM = 9
#: Functions with a hidden first argument, which says how the others are written (see `functions.json_building`).
_MARKED = frozenset({"to_json", "json_array", "json_object"})

_TYPE_NAMES: dict[pa.DataType, str] = {
    pa.null(): "NULL",
    **{type_.arrow: type_.name for type_ in TYPES},
    pa.month_day_nano_interval(): "INTERVAL",
}
_SIMPLE_TYPES = {name: type_ for type_, name in _TYPE_NAMES.items()}


def type_name(type_: pa.DataType) -> str:
    """Returns the SQL spelling of a type.

    >>> type_name(pa.list_(pa.struct([("a", pa.decimal128(9, 2))])))
    'STRUCT(a DECIMAL(9, 2))[]'
    """
    if (name := _TYPE_NAMES.get(type_)) is not None:
        return name
    if pa.types.is_decimal(type_):
        return f"DECIMAL({type_.precision}, {type_.scale})"
    if pa.types.is_list(type_):
        return f"{type_name(type_.value_type)}[]"
    if pa.types.is_struct(type_):
        return f"STRUCT({', '.join(f'{identifier(field.name)} {type_name(field.type)}' for field in type_)})"
    return str(type_).upper()


def simple_type(name: str) -> pa.DataType | None:
    """Returns the type that `type_name` spells as `name` if it is a type without parameters, else None.

    >>> simple_type("BIGINT"), simple_type("BIGINT[]")
    (DataType(int64), None)
    """
    return _SIMPLE_TYPES.get(name)


def identifier(name: str) -> str:
    """Returns the name, in double quotes unless it is a plain word."""
    plain = name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit()
    return name if plain else quoted_identifier(name)


def to_sql(expression: Expression) -> str:
    """Returns the expression as SQL text; casts that the system added to widen a value are left out.

    >>> x = Column("x", pa.int64())
    >>> total = Call("add", (x, Literal(1, pa.int64())), pa.int64(), True)
    >>> to_sql(Call("multiply", (total, x), pa.int64(), True))
    '(x + 1) * x'
    """
    return _render(expression)[0]


def _render(expression: Expression) -> tuple[str, int]:
    if isinstance(expression, Column):
        return identifier(expression.name), _ATOM
    if isinstance(expression, Literal):
        return _literal(expression)
    return _call(expression)


def visible_arguments(name: str, arguments: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """Returns the arguments of a call without a hidden first one."""
    return arguments[1:] if name in _MARKED else arguments


def _call(call: Call) -> tuple[str, int]:
    name, arguments = call.function, call.arguments
    if name == "widen":
        return _render(arguments[0])
    arguments = visible_arguments(name, arguments)
    if name in BINARY and len(arguments) == 2:
        symbol, strength = BINARY[name]
        right_strength = strength if name in ("and", "or") else strength + 1
        return f"{_inside(arguments[0], strength)} {symbol} {_inside(arguments[1], right_strength)}", strength
    if name in ("and", "or"):
        symbol, strength = BINARY[name]
        return f" {symbol} ".join(_inside(argument, strength) for argument in arguments), strength
    if name in PREFIX_OPERATORS:
        symbol, strength = PREFIX_OPERATORS[name]
        return f"{symbol}{_inside(arguments[0], strength + (name != 'not'))}", strength
    if name in POSTFIX:
        return f"{_inside(arguments[0], 5)} {POSTFIX[name]}", 4
    return _SPECIAL[name](call) if name in _SPECIAL else (f"{name.upper()}({_list(arguments)})", _ATOM)


def _inside(expression: Expression, strength: int) -> str:
    text, own = _render(expression)
    return text if own >= strength else f"({text})"


def _list(arguments: tuple[Expression, ...]) -> str:
    return ", ".join(to_sql(argument) for argument in arguments)


def _case(call: Call) -> tuple[str, int]:
    *pairs, default = map(to_sql, call.arguments)
    whens = " ".join(f"WHEN {when} THEN {then}" for when, then in zip(pairs[::2], pairs[1::2], strict=True))
    return f"CASE {whens} ELSE {default} END", _ATOM


def _in(call: Call) -> tuple[str, int]:
    return f"{_inside(call.arguments[0], 5)} IN ({_list(call.arguments[1:])})", 4


def _like_escape(call: Call) -> tuple[str, int]:
    symbol, value, pattern = BINARY[call.function][0], *call.arguments[:2]
    return f"{_inside(value, 5)} {symbol} {_inside(pattern, 5)} ESCAPE {to_sql(call.arguments[2])}", 4


def _cast(call: Call) -> tuple[str, int]:
    return f"{call.function.upper()}({to_sql(call.arguments[0])} AS {type_name(call.type)})", _ATOM


def _field(call: Call) -> tuple[str, int]:
    name = call.arguments[1]
    assert isinstance(name, Literal)
    return f"{_inside(call.arguments[0], _ATOM)}.{identifier(str(name.value))}", _ATOM


def _struct(call: Call) -> tuple[str, int]:
    assert isinstance(call.type, pa.StructType)
    fields = zip(call.type, call.arguments[1::2], strict=True)
    return f"STRUCT({', '.join(f'{to_sql(value)} AS {identifier(field.name)}' for field, value in fields)})", _ATOM


def _extract(call: Call) -> tuple[str, int]:
    part = call.arguments[0]
    assert isinstance(part, Literal)
    return f"EXTRACT({str(part.value).upper()} FROM {to_sql(call.arguments[1])})", _ATOM


_SPECIAL: dict[str, Callable[[Call], tuple[str, int]]] = {
    "case": _case,
    "in": _in,
    "like": _like_escape,
    "ilike": _like_escape,
    "cast": _cast,
    "try_cast": _cast,
    "field": _field,
    "extract": _extract,
    "struct": _struct,
    "bit_xor": lambda call: (f"XOR({_list(call.arguments)})", _ATOM),
    "array": lambda call: (f"[{_list(call.arguments)}]", _ATOM),
    "subscript": lambda call: (f"{_inside(call.arguments[0], _ATOM)}[{to_sql(call.arguments[1])}]", _ATOM),
}


def _literal(literal: Literal) -> tuple[str, int]:
    value = literal.value
    if value is None:
        return "NULL", _ATOM
    if isinstance(value, bool):
        return str(value).upper(), _ATOM
    if isinstance(value, int | float | Decimal):
        return _number(value), _ATOM if value >= 0 else 8
    return _text_literal(literal), _ATOM


def _number(value: int | float | Decimal) -> str:
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return f"CAST('{value}' AS DOUBLE)"
    return format(value, "f") if isinstance(value, Decimal) else repr(value)


def _text_literal(literal: Literal) -> str:
    value = literal.value
    if isinstance(literal.type, DistinctType):
        return f"{type_name(literal.type)} '{value}'"
    if isinstance(value, str):
        return quoted_text(value)
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if isinstance(value, datetime.datetime):
        return f"TIMESTAMP '{value.isoformat(' ')}'"
    if isinstance(value, datetime.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, Interval):
        return _interval(value)
    return json.dumps(value, default=str)


def _interval(value: Interval) -> str:
    parts = [
        f"{count} {unit}"
        for count, unit in ((value.months, "months"), (value.days, "days"), (value.microseconds, "microseconds"))
        if count
    ]
    return f"INTERVAL '{' '.join(parts) or '0 days'}'"
