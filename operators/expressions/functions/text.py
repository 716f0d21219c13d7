"""Functions of text. Lengths and positions are in characters, positions from 1; comparison is byte by byte."""

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import polars as pl
import pyarrow as pa

from operators.expressions.function import (
    Arguments,
    Compiled,
    Function,
    Rule,
    Signature,
    first_fault,
    height_of,
    lit_text,
    literal_value,
    may_fail,
    never_fails,
    never_fails_call,
    quoted,
)
from operators.expressions.functions.comparison import null_where_fault
from operators.expressions.functions.conversion import converted, convertible
from operators.expressions.functions.entry import BOOLEAN, LONG, TEXT, Build, constant, with_constants
from operators.expressions.functions.rules import exactly
from operators.expressions.tree import Call, columns

_FAR = 2**31
_FEW_PARTS = 8


def _entry(summary: str, example: str, rule: Rule, build: Build, takes: str = "text") -> Function:
    return Function("text", takes, summary, example, rule, never_fails(build))


def _spread(text: pl.Expr, *others: pl.Expr) -> pl.Expr:
    """Returns the text with as many rows as the longest argument, null where any argument is null. List operations of
    Polars misread a literal that has a single row."""
    return pl.when(pl.all_horizontal([other.is_not_null() for other in others])).then(text)


def _substring(text: pl.Expr, start: pl.Expr, length: pl.Expr | None = None) -> pl.Expr:
    start = start.clip(-_FAR, _FAR)
    offset = pl.max_horizontal(start, 1) - 1
    if length is None:
        return pl.when(start.is_not_null()).then(text.str.slice(offset))
    end = start + length.clip(0, _FAR) - 1
    cut = text.str.slice(offset, pl.max_horizontal(end - offset, 0))
    return pl.when(start.is_not_null() & length.is_not_null()).then(cut)


def _position(text: pl.Expr, part: pl.Expr) -> pl.Expr:
    text = _spread(text, part)
    before = text.str.splitn(part, 2).struct.field("field_0").str.len_chars().cast(pl.Int64) + 1
    contained = text.str.contains(part, literal=True)
    return (
        pl.when((part == "") & text.is_not_null())
        .then(1)
        .when(contained)
        .then(before)
        .when(~contained)
        .then(0)
        .cast(pl.Int64)
    )


def _replace(call: Call, text: pl.Expr, old: pl.Expr, new: pl.Expr) -> pl.Expr:
    if _by_constants(call) and literal_value(call.arguments[1]) != "":
        return text.str.replace_all(*map(literal_value, call.arguments[1:]), literal=True)
    text = _spread(text, old, new)
    replaced = text.str.split(old).list.join(new)
    return pl.when((old == "") & new.is_not_null()).then(text).otherwise(replaced)


def _by_constants(call: Call) -> bool:
    """Whether only the first argument varies from row to row."""
    return bool(columns(call.arguments[0])) and all(map(constant, call.arguments[1:]))


def _split_part(text: pl.Expr, separator: pl.Expr, index: pl.Expr) -> pl.Expr:
    text, index = _spread(text, separator, index), index.clip(-_FAR, _FAR)
    position = pl.when(index > 0).then(index - 1).otherwise(index)
    part = text.str.split(separator).list.get(position, null_on_oob=True).fill_null("")
    return pl.when((index != 0) & text.is_not_null() & separator.is_not_null()).then(part)


_SPLIT_PART = may_fail(_split_part, "position 0, but the first part is 1,")


def _split_parts(call: Call, arguments: Sequence[Compiled]) -> Compiled:
    if not _by_constants(call) or not all(map(literal_value, call.arguments[1:])):
        return _SPLIT_PART(call, arguments)
    return never_fails_call(_split_at)(call, arguments)


def _split_at(call: Call, text: pl.Expr, *_: pl.Expr) -> pl.Expr:
    """Returns the part at a constant position. Polars splits a text only once for several such calls, and splits into a
    few parts faster than into all."""
    separator, index = map(literal_value, call.arguments[1:])
    position = max(-_FAR, min(index - (index > 0), _FAR))
    if 0 <= position < _FEW_PARTS - 1:  # the last part holds the rest of the text
        part = text.str.splitn(separator, _FEW_PARTS).struct.field(f"field_{position}")
    else:
        part = text.str.split(separator).list.get(position, null_on_oob=True)
    filled = part.fill_null("")
    return pl.when(text.is_not_null()).then(filled) if call.arguments[0].nullable else filled


def _by_row(change: Callable[..., str | None]) -> Build:
    """Applies a Python function to each row that has no NULL. In Polars this would need lists of single characters."""

    def made(values: Sequence[pl.Series]) -> pl.Series:
        height = height_of(values)
        rows = zip(*[each.to_list() * (1 if len(each) == height else height) for each in values], strict=True)
        return pl.Series(values[0].name, [None if None in row else change(*row) for row in rows], pl.String)

    return lambda *values: pl.map_batches(list(values), made, pl.String, is_elementwise=True)


def _padded(text: str, width: int, fill: str, *, left: bool) -> str:
    missing = width - len(text)
    if missing <= 0 or not fill:
        return text[: max(width, 0)]
    padding = (fill * (missing // len(fill) + 1))[:missing]
    return padding + text if left else text + padding


def _pad(*, left: bool) -> Build:
    build = _by_row(partial(_padded, left=left))
    return lambda text, width, fill=None: build(text, width, pl.lit(" ") if fill is None else fill)


def _strip(method: str) -> Build:
    def build(text: pl.Expr, characters: pl.Expr | None = None) -> pl.Expr:
        stripped: pl.Expr = getattr(text.str, method)(" " if characters is None else characters)
        return stripped if characters is None else pl.when(characters.is_not_null()).then(stripped)

    return build


def _texts(least: int, *, strict: bool) -> Rule:
    def rule(arguments: Arguments) -> Signature | None:
        types = [argument.type for argument in arguments]
        texts = any(pa.types.is_string(type_) for type_ in types) or not strict
        if len(types) < least or not texts or not all(convertible(type_, TEXT) for type_ in types):
            return None
        return Signature(tuple(types), TEXT, None if strict else False)

    return rule


def _texts_of(call: Call, arguments: Sequence[Compiled]) -> tuple[list[pl.Expr], pl.Expr | None]:
    """Returns the arguments as text, and their fault, which includes bytes that are not UTF-8."""
    pairs = list(zip(arguments, call.arguments, strict=True))
    texts = [converted(compiled.value, source.type, TEXT) for compiled, source in pairs]
    unread = [
        pl.when(text.is_null() & compiled.value.is_not_null()).then(lit_text(f"invalid UTF-8 in {quoted(call)}"))
        for text, (compiled, source) in zip(texts, pairs, strict=True)
        if pa.types.is_binary(source.type)
    ]
    return texts, first_fault([*(argument.fault for argument in arguments), *unread])


def _joined(*, strict: bool) -> Callable[[Call, Sequence[Compiled]], Compiled]:
    def evaluate(call: Call, arguments: Sequence[Compiled]) -> Compiled:
        texts, fault = _texts_of(call, arguments)
        return null_where_fault(pl.concat_str(texts, ignore_nulls=not strict), fault)

    return evaluate


def _concat_ws(call: Call, arguments: Sequence[Compiled]) -> Compiled:
    texts, fault = _texts_of(call, arguments)
    # depends on the separator, because Polars joins constants to a single row even if the separator is a column
    first = pl.when(texts[0].is_not_null()).then(texts[1])
    value = pl.concat_list([first, *texts[2:]]).list.drop_nulls().list.join(texts[0])
    return null_where_fault(value, fault)


def _translate(call: Call, text: pl.Expr, *_: pl.Expr) -> pl.Expr:
    old, new = map(str, map(literal_value, call.arguments[1:]))
    table: dict[int, str | None] = {}
    for at, character in enumerate(old):
        table.setdefault(ord(character), new[at] if at < len(new) else None)

    return _by_value(text, lambda value: value.translate(table), pl.String())


def _character(number: int) -> str | None:
    return chr(number) if 0 < number < 0x110000 and not 0xD800 <= number < 0xE000 else None


def _by_value(value: pl.Expr, change: Callable[[Any], object], dtype: pl.DataType) -> pl.Expr:
    """Applies a Python function to each value that is not NULL."""

    def changed(values: pl.Series) -> pl.Series:
        return pl.Series(values.name, [None if each is None else change(each) for each in values], dtype)

    return value.map_batches(changed, return_dtype=dtype, is_elementwise=True)


def _digest(name: str) -> Build:
    """Returns a digest computed by a Python loop over the batch, because Polars has no stable digests."""

    return lambda text: _by_value(text, lambda each: hashlib.new(name, each.encode()).hexdigest(), pl.String())


_ONE, _TWO = exactly(TEXT, result=TEXT), exactly(TEXT, TEXT, result=BOOLEAN)
_TRIM = exactly(TEXT, TEXT, result=TEXT, optional=1)
_PAD = exactly(TEXT, LONG, TEXT, result=TEXT, optional=1)
_CUT = exactly(TEXT, LONG, result=TEXT)

TEXTS: dict[str, Function] = {
    "upper": _entry("The text in upper case.", "UPPER('a')", _ONE, lambda a: a.str.to_uppercase()),
    "lower": _entry("The text in lower case.", "LOWER('A')", _ONE, lambda a: a.str.to_lowercase()),
    "initcap": _entry("The text with each word capitalised.", "INITCAP('ab cd')", _ONE, lambda a: a.str.to_titlecase()),
    "reverse": _entry("The text reversed.", "REVERSE('abc')", _ONE, lambda a: a.str.reverse()),
    "length": _entry(
        "The number of characters; also CHAR_LENGTH.",
        "LENGTH('abc')",
        exactly(TEXT, result=LONG),
        lambda a: a.str.len_chars().cast(pl.Int64),
    ),
    "octet_length": _entry(
        "The number of bytes in UTF-8.",
        "OCTET_LENGTH('abc')",
        exactly(TEXT, result=LONG),
        lambda a: a.str.len_bytes().cast(pl.Int64),
    ),
    "substring": _entry(
        "The part that starts at a position, with at most the given number of characters; also SUBSTR.",
        "SUBSTRING('hello', 2, 3)",
        exactly(TEXT, LONG, LONG, result=TEXT, optional=1),
        _substring,
        "text, a position and a length",
    ),
    "trim": _entry(
        "The text without spaces, or the given characters, at both ends.", "TRIM(' a ')", _TRIM, _strip("strip_chars")
    ),
    "ltrim": _entry("As TRIM, but only at the start.", "LTRIM(' a')", _TRIM, _strip("strip_chars_start")),
    "rtrim": _entry("As TRIM, but only at the end.", "RTRIM('a ')", _TRIM, _strip("strip_chars_end")),
    "concat": Function(
        "text",
        "values",
        "The values concatenated as text; NULLs are skipped.",
        "CONCAT('a', 1)",
        _texts(1, strict=False),
        _joined(strict=False),
    ),
    "concat_strict": Function(
        "text",
        "values, one of them text",
        "The values concatenated as text; NULL if one is NULL.",
        "'a' || 1",
        _texts(2, strict=True),
        _joined(strict=True),
    ),
    "concat_ws": Function(
        "text",
        "a separator and values",
        "The values that are not NULL, joined by the separator.",
        "CONCAT_WS(',', 'a', 'b')",
        _texts(2, strict=False),
        _concat_ws,
    ),
    "replace": Function(
        "text",
        "three texts",
        "The text with every occurrence of the second replaced by the third.",
        "REPLACE('abc', 'b', 'x')",
        exactly(TEXT, TEXT, TEXT, result=TEXT),
        never_fails_call(_replace),
    ),
    "strpos": _entry(
        "The position of the second text in the first, 0 if it does not occur; also POSITION(b IN a).",
        "STRPOS('abc', 'b')",
        exactly(TEXT, TEXT, result=LONG),
        _position,
        "two texts",
    ),
    "split_part": Function(
        "text",
        "text, a separator and a position",
        "The part at the position, from the end if negative, or empty. An empty separator splits into characters.",
        "SPLIT_PART('a,b', ',', 2)",
        exactly(TEXT, TEXT, LONG, result=TEXT),
        _split_parts,
    ),
    "starts_with": _entry(
        "True if the first text starts with the second.",
        "STARTS_WITH('abc', 'a')",
        _TWO,
        lambda a, b: a.str.starts_with(b),
    ),
    "ends_with": _entry(
        "True if the first text ends with the second.", "ENDS_WITH('abc', 'c')", _TWO, lambda a, b: a.str.ends_with(b)
    ),
    "contains": _entry(
        "True if the first text contains the second.",
        "CONTAINS('abc', 'b')",
        _TWO,
        lambda a, b: a.str.contains(b, literal=True),
    ),
    "left": _entry(
        "The first n characters; all but the last n if n is negative.",
        "LEFT('abc', 2)",
        _CUT,
        lambda a, n: a.str.head(n),
        "text and a number",
    ),
    "right": _entry(
        "The last n characters; all but the first n if n is negative.",
        "RIGHT('abc', 2)",
        _CUT,
        lambda a, n: a.str.tail(n),
        "text and a number",
    ),
    "repeat": Function(
        "text",
        "text and a number",
        "The text repeated n times; a result of more than a million bytes is a fault.",
        "REPEAT('ab', 2)",
        _CUT,
        never_fails(_by_row(lambda text, times: text * times)),
    ),
    "lpad": Function(
        "text",
        "text, a width and a padding text",
        "The text padded on the left, or cut, to the width; more than a million characters are a fault.",
        "LPAD('7', 3, '0')",
        _PAD,
        never_fails(_pad(left=True)),
    ),
    "rpad": Function(
        "text",
        "text, a width and a padding text",
        "The text padded on the right, or cut, to the width.",
        "RPAD('7', 3, '0')",
        _PAD,
        never_fails(_pad(left=False)),
    ),
    "chr": Function(
        "text",
        "a number",
        "The character with this Unicode code point; a fault if there is none.",
        "CHR(65)",
        exactly(LONG, result=TEXT),
        may_fail(lambda number: _by_value(number, _character, pl.String()), "no such character"),
    ),
    "ascii": _entry(
        "The Unicode code point of the first character; 0 for an empty text.",
        "ASCII('A')",
        exactly(TEXT, result=LONG),
        lambda text: _by_value(text, lambda value: ord(value[0]) if value else 0, pl.Int64()),
    ),
    "translate": Function(
        "text",
        "text and two literal texts",
        "The text with each character of the second replaced by the one at its position in the third, or removed.",
        "TRANSLATE('abc', 'ab', 'x')",
        with_constants(exactly(TEXT, TEXT, TEXT, result=TEXT), 1, 2),
        never_fails_call(_translate),
    ),
    "md5": _entry("The MD5 digest in hexadecimal.", "MD5('a')", _ONE, _digest("md5")),
    "sha256": _entry("The SHA-256 digest in hexadecimal.", "SHA256('a')", _ONE, _digest("sha256")),
}
