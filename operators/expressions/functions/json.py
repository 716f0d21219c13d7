"""Functions that read JSON text. Polars has no validating parser, so Python's parser reads each batch row by row."""

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa

from operators.core.errors import UserError
from operators.expressions.arrow_types import polars_type
from operators.expressions.function import (
    Arguments,
    Compiled,
    Evaluation,
    Function,
    Rule,
    Signature,
    first_fault,
    lit_text,
    literal_value,
    quoted,
)
from operators.expressions.functions.entry import BOOLEAN, LONG, TEXT, with_constants
from operators.expressions.functions.rules import exactly
from operators.expressions.tree import Call

Read = Callable[[Any], Any]

_STEP = re.compile(r'\.(?:"([^"]*)"|([^.\[\]"]+))|\[(-?\d+)\]|\["([^"]*)"\]|\[\'([^\']*)\'\]')
#: Matches the escape of one half of a surrogate pair, even if the other half follows.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
#: Integers with at least this many characters are kept as text, because Python converts long integers slowly.
_LONGEST_INTEGER = 4000


#: The names of the kinds of JSON values that are neither numbers nor composite.
_SCALAR_KINDS: dict[type, str] = {str: "string", bool: "boolean", type(None): "null"}
_TEXTS = pa.list_(TEXT)


class _Missing:
    """The type of the marker for a path that matches nothing."""


_MISSING = _Missing()


def parse_path(path: str) -> tuple[str | int, ...]:
    """Returns the steps of a path: names in an object, or positions in an array, from 0. Raises UserError if invalid.

    >>> parse_path('$.a."b c"[0]')
    ('a', 'b c', 0)
    """
    text = path if path.startswith("$") else f"$.{path}"
    steps: list[str | int] = []
    position = 1
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            raise UserError(f'"{path}" is not a valid JSON path', hint="for example '$.a.b[0]'")
        quoted_name, name, index, *others = match.groups()
        steps.append(
            int(index) if index is not None else next(x for x in (quoted_name, name, *others) if x is not None)
        )
        position = match.end()
    return tuple(steps)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not valid JSON")


@dataclass(frozen=True)
class _Huge:
    """A number in its original notation, because no DOUBLE can hold it or it is too long to convert."""

    text: str


def _float(text: str) -> float | _Huge:
    number = float(text)
    return number if math.isfinite(number) else _Huge(text)


def _integer(text: str) -> int | _Huge:
    return int(text) if len(text) < _LONGEST_INTEGER else _Huge(text)


_PARSE = json.JSONDecoder(parse_constant=_refuse, parse_float=_float, parse_int=_integer).decode


def _load(text: str) -> Any:
    """Parses JSON text. Raises ValueError if it is not JSON or contains an unpaired surrogate, which is no
    character."""
    if _SURROGATE.search(text):
        json.dumps(json.loads(text, object_pairs_hook=list), ensure_ascii=False).encode()
    return _PARSE(text)


def _follow(document: Any, steps: tuple[str | int, ...]) -> Any:
    for step in steps:
        if isinstance(step, str):
            document = document.get(step, _MISSING) if isinstance(document, dict) else _MISSING
        elif isinstance(document, list) and -len(document) <= step < len(document):
            document = document[step]
        else:
            return _MISSING
    return document


def _dump(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except TypeError:
        return _dump_numbers(value)


def _dump_numbers(value: Any) -> str:
    """As `_dump`, for a value with numbers that are kept in their original notation."""
    if isinstance(value, _Huge):
        return value.text
    if isinstance(value, dict):
        return "{" + ",".join(f"{_dump(name)}:{_dump(inner)}" for name, inner in value.items()) + "}"
    return "[" + ",".join(map(_dump, value)) + "]"


def _any(value: Any) -> str | None:
    return None if value is _MISSING else _dump(value)


def _string(value: Any) -> str | None:
    if value is _MISSING or value is None:
        return None
    return value if isinstance(value, str) else _dump(value)


def _scalar(value: Any) -> str | None:
    return None if isinstance(value, dict | list) else _string(value)


def _composite(value: Any) -> str | None:
    return _dump(value) if isinstance(value, dict | list) else None


def _exists(value: Any) -> bool:
    return value is not _MISSING


def _length(value: Any) -> int | None:
    return len(value) if isinstance(value, list) else None


def _kind(value: Any) -> str | None:
    if value is _MISSING:
        return None
    if isinstance(value, dict | list):
        return "object" if isinstance(value, dict) else "array"
    return _SCALAR_KINDS.get(type(value), "number")


def _elements(value: Any) -> list[str] | None:
    return list(map(_dump, value)) if isinstance(value, list) else None


def _element_texts(value: Any) -> list[str | None] | None:
    return list(map(_string, value)) if isinstance(value, list) else None


def _keys(value: Any) -> list[str] | None:
    return list(value) if isinstance(value, dict) else None


def _rows(texts: pl.Series, read: Callable[[str], Any], invalid: Any, dtype: pl.DataType) -> pl.Series:
    values: list[Any] = []
    for text in texts:
        try:
            values.append(None if text is None else read(text))
        except (ValueError, RecursionError):
            values.append(invalid)
    return pl.Series(texts.name, values, dtype=dtype)


def _valid(texts: pl.Series) -> pl.Series:
    return _rows(texts, lambda text: _load(text) is not _MISSING, False, pl.Boolean())


def _evaluation(read: Read) -> Evaluation:
    def evaluate(call: Call, arguments: Any) -> Compiled:
        steps = parse_path(str(literal_value(call.arguments[1]))) if len(call.arguments) == 2 else ()
        dtype = polars_type(call.type)

        def read_rows(texts: pl.Series) -> pl.Series:
            return _rows(texts, lambda text: read(_follow(_load(text), steps)), None, dtype)

        text = arguments[0].value
        valid = text.map_batches(_valid, return_dtype=pl.Boolean, is_elementwise=True)
        own = pl.when(~valid).then(lit_text(f"invalid JSON in {quoted(call)}"))
        value = text.map_batches(read_rows, return_dtype=dtype, is_elementwise=True)
        return Compiled(value, first_fault([arguments[0].fault, own]))

    return evaluate


def _valid_evaluation(_: Call, arguments: Any) -> Compiled:
    value = arguments[0].value.map_batches(_valid, return_dtype=pl.Boolean, is_elementwise=True)
    return Compiled(value, arguments[0].fault)


def _path_rule(result: Any, *, optional: int = 0) -> Rule:
    rule = with_constants(exactly(TEXT, TEXT, result=result, nullable=True, optional=optional), 1)

    def checked(arguments: Arguments) -> Signature | None:
        signature = rule(arguments)
        if signature is not None and len(arguments) == 2:
            parse_path(str(literal_value(arguments[1])))
        return signature

    return checked


def _entry(summary: str, example: str, result: Any, read: Read, optional: int = 0) -> Function:
    rule = _path_rule(result, optional=optional)
    return Function("json", "JSON text and a literal path", summary, example, rule, _evaluation(read))


JSON: dict[str, Function] = {
    "json_extract": _entry(
        "The value at the path, as JSON; text that is not JSON is a fault.", "JSON_EXTRACT(j, '$.a[0]')", TEXT, _any
    ),
    "json_extract_string": _entry(
        "The value at the path, as text: strings without quotes.", "JSON_EXTRACT_STRING(j, '$.a')", TEXT, _string
    ),
    "json_value": _entry(
        "The string, number or boolean the path finds, as text; else NULL.", "JSON_VALUE(j, '$.a')", TEXT, _scalar
    ),
    "json_query": _entry(
        "The object or array the path finds, as JSON; else NULL.", "JSON_QUERY(j, '$.a')", TEXT, _composite
    ),
    "json_exists": _entry("True if the path finds something.", "JSON_EXISTS(j, '$.a')", BOOLEAN, _exists),
    "json_array_length": _entry(
        "The number of elements of the array; NULL if the value is not an array.",
        "JSON_ARRAY_LENGTH(j)",
        LONG,
        _length,
        1,
    ),
    "json_typeof": _entry(
        "The kind of the value: object, array, string, number, boolean or null.", "JSON_TYPEOF(j)", TEXT, _kind, 1
    ),
    "json_elements": _entry(
        "The elements of the array, as JSON; NULL if the value is not an array. FROM JSON_ARRAY_ELEMENTS(j) AS e is "
        "UNNEST of it.",
        "JSON_ELEMENTS(j)",
        _TEXTS,
        _elements,
        1,
    ),
    "json_element_texts": _entry(
        "The elements of the array, as text: strings without quotes; also FROM JSON_ARRAY_ELEMENTS_TEXT(j) AS e.",
        "JSON_ELEMENT_TEXTS(j)",
        _TEXTS,
        _element_texts,
        1,
    ),
    "json_keys": _entry(
        "The names in the object, NULL if the value is not an object; also FROM JSON_OBJECT_KEYS(j) AS k.",
        "JSON_KEYS(j)",
        _TEXTS,
        _keys,
        1,
    ),
    "json_valid": Function(
        "json",
        "text",
        "True for text that is JSON.",
        "JSON_VALID(j)",
        exactly(TEXT, result=BOOLEAN),
        _valid_evaluation,
    ),
}
