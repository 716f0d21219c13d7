"""Binds calls of SQL functions to the functions of `operators.expressions.FUNCTIONS`, by node type or name."""

import re
from collections.abc import Callable, Sequence
from typing import NoReturn

import pyarrow as pa
from sqlglot import exp

from dsms.model.position import error_at
from dsms.sql.binder.scalars.other_systems import instead_of
from dsms.sql.parser.interval import unit_name
from dsms.sql.parser.json_notations import JSON_TEXT
from dsms.sql.parser.nodes import WRITTEN_NAME
from operators.core.nearest import have
from operators.expressions import FUNCTIONS, Expression, Literal, call, cast
from operators.expressions.functions.json_building import BUILDING, JSON_MARK, TEXT_MARK
from operators.expressions.functions.patterns import similar_regex

#: The key in a call's `meta` for the definition of the Python function that it calls.
PYTHON = "python function"
Bind = Callable[[exp.Expr], Expression]
Special = Callable[[exp.Expr, Bind], Expression]

#: Functions of other systems whose results would not depend on the logs alone.
NONDETERMINISTIC = {
    "now", "current_timestamp", "current_date", "current_time", "current_datetime", "localtimestamp", "localtime",
    "rand", "random", "uuid", "gen_random_uuid", "getdate", "sysdate", "today", "clock_timestamp", "randn", "proctime",
    "transaction_timestamp", "statement_timestamp", "unix_timestamp",
}  # fmt: skip

#: Other names of functions, including names that sqlglot gives to its nodes, each with the name in FUNCTIONS; "" for
#: functions that only the binder can call.
ALIASES: dict[str, str] = {
    "if": "case", "iff": "case", "ifnull": "coalesce", "nvl": "coalesce", "mod": "modulo", "substr": "substring",
    "char_length": "length", "character_length": "length", "len": "length", "byte_length": "octet_length",
    "str_position": "strpos", "instr": "strpos", "prefix": "starts_with", "suffix": "ends_with", "pow": "power",
    "ceiling": "ceil", "truncate": "trunc", "is_nan": "isnan", "regexp_matches": "regexp_like",
    "regexp_i_like": "regexp_like", "datetrunc": "date_trunc", "datediff": "date_diff", "date_part": "extract",
    "datepart": "extract", "date_format": "strftime", "array_length": "cardinality", "array_size": "cardinality",
    "array_cat": "array_concat", "list_concat": "array_concat", "string_split": "string_to_array",
    "str_split": "string_to_array", "timestamp_from_parts": "make_timestamp", "list_position": "array_position",
    "list_append": "array_append", "list_prepend": "array_prepend",
    "list_contains": "array_contains", "list_has": "array_contains",
    "btrim": "trim", "xor": "bit_xor", "unix_to_time": "to_timestamp",
    "j_s_o_n_extract": "json_extract", "j_s_o_n_array_length": "json_array_length", "array_join": "array_to_string",
    "json_build_object": "json_object", "jsonb_build_object": "json_object", "json_build_array": "json_array",
    "jsonb_build_array": "json_array", "to_jsonb": "to_json", "jsonb_typeof": "json_typeof",
    "jsonb_array_length": "json_array_length",
    "concat_strict": "", "widen": "",
}  # fmt: skip

#: Functions that return a part of a date or timestamp, each with the part as EXTRACT names it.
_TIME_PARTS = {
    "year": "year", "quarter": "quarter", "month": "month", "week": "week", "week_of_year": "week", "day": "day",
    "day_of_month": "day", "dayofmonth": "day", "day_of_week": "dow", "dayofweek": "dow", "day_of_year": "doy",
    "dayofyear": "doy", "hour": "hour", "minute": "minute", "second": "second",
}  # fmt: skip


def bind_function(node: exp.Expr, bind: Bind) -> Expression:
    """The bound call of a function node. Raises SqlError for unknown functions and for nondeterministic ones."""
    name = function_name(node)
    if name in NONDETERMINISTIC:
        raise error_at(
            node,
            f'"{written_name(node)}" is not supported',
            hint="results must depend on the logs alone: use the column TS, the instant of the row",
        )
    if (special := _SPECIAL.get(type(node))) is not None:
        return special(node, bind)
    if name == "row":
        return struct_of(node, bind)
    arguments = [bind(argument) for argument in arguments_of(node)]
    if name in _TIME_PARTS and len(arguments) == 1:
        return call("extract", _text(_TIME_PARTS[name]), arguments[0])
    if name in ("if", "iff"):
        arguments += [Literal(None, pa.null())] * (3 - len(arguments))
    if name in ("to_date", "date"):
        return cast(arguments[0], pa.date32())
    target = ALIASES.get(name, name)
    if target not in FUNCTIONS:
        refuse_unknown(node)
    if target in BUILDING:
        arguments = [_marks(arguments_of(node)), *arguments]
    return call(target, *arguments)


def is_supported_call(node: exp.Expr) -> bool:
    """Whether a function node calls a function of `FUNCTIONS`, under any of its names.

    >>> is_supported_call(exp.func("char_length", exp.Null())), is_supported_call(exp.func("pg_sleep", exp.Null()))
    (True, False)
    """
    name = function_name(node)
    other = name in _TIME_PARTS or name in ("row", "to_date", "date")
    return type(node) in _SPECIAL or other or ALIASES.get(name, name) in FUNCTIONS


def refuse_unknown(node: exp.Expr) -> NoReturn:
    """Raises the SqlError for a function that does not exist."""
    if isinstance(node, exp.Explode | exp.ExplodingGenerateSeries):
        hint = "CROSS JOIN UNNEST(a) AS u(x), or one UNNEST in the select list"
        raise error_at(node, "UNNEST or generate_series is not supported here", hint=hint)
    name = written_name(node)
    raise error_at(node, f'function "{name}" not found', hint=instead_of(name) or have(name, _names()))


def is_function_name(name: str) -> bool:
    """Whether SQL has a function of this name.

    >>> is_function_name("nvl"), is_function_name("random"), is_function_name("score")
    (True, True, False)
    """
    return (
        name in FUNCTIONS
        or name in ALIASES
        or name in NONDETERMINISTIC
        or name in _TIME_PARTS
        or name in ("row", "date")
    )


def function_name(node: exp.Expr) -> str:
    """The function's name in lower case: as written if the parser does not know it, else the parser's own name."""
    return str(
        node.sql_name() if isinstance(node, exp.Func) and not isinstance(node, exp.Anonymous) else node.name or node.key
    ).lower()


def written_name(node: exp.Expr) -> str:
    """The name of a call in lower case, as written."""
    return str(node.meta.get(WRITTEN_NAME) or function_name(node))


def _names() -> list[str]:
    listed = (known for known, function in FUNCTIONS.items() if function.example)
    return sorted(known for known in {*listed, *ALIASES} if ALIASES.get(known) != "")


def arguments_of(node: exp.Expr) -> list[exp.Expr]:
    """The arguments in the order in which the node's class declares them."""
    if isinstance(node, exp.Anonymous):
        return list(node.expressions)
    arguments: list[exp.Expr] = []
    for key in node.arg_types:
        value = node.args.get(key)
        if isinstance(value, list):
            arguments += value
        elif isinstance(value, exp.Expr):
            arguments.append(value)
    return arguments


def _text(value: str) -> Literal:
    return Literal(value, pa.string())


def _trim(node: exp.Expr, bind: Bind) -> Expression:
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position")).upper(), "trim")
    return call(name, *[bind(node.args[key]) for key in ("this", "expression") if node.args.get(key)])


def _pad(node: exp.Expr, bind: Bind) -> Expression:
    name = "lpad" if node.args.get("is_left") else "rpad"
    return call(name, *[bind(node.args[key]) for key in ("this", "expression", "fill_pattern") if node.args.get(key)])


def _log(node: exp.Expr, bind: Bind) -> Expression:
    base, value = node.this, node.args.get("expression")
    if value is None:
        return call("log10", bind(base))
    if isinstance(base, exp.Literal) and base.name in ("2", "10") and "line" not in base.meta:
        return call(f"log{base.name}", bind(value))
    return call("log", bind(base), bind(value))


def _extract(node: exp.Expr, bind: Bind) -> Expression:
    return call("extract", _text(node.this.name), bind(node.expression))


def _truncated(node: exp.Expr, bind: Bind) -> Expression:
    return call("date_trunc", _text(node.args["unit"].name), bind(node.this))


def _difference(node: exp.Expr, bind: Bind) -> Expression:
    """DATE_DIFF. The generic parser assigns (unit, start, end) by position to `this`, `expression` and `unit`."""
    start, end, unit = node.expression, node.this, node.args.get("unit")
    if unit is not None and isinstance(end, exp.Literal) and unit_name(end.name) is not None:
        end, unit = unit, end
    if unit is None:
        return call("subtract", bind(end), bind(start))
    return call("date_diff", _text(unit.name), bind(start), bind(end))


def _shifted_by(name: str) -> Special:
    def moved(node: exp.Expr, bind: Bind) -> Expression:
        amount = node.expression
        if node.args.get("unit") is not None and not isinstance(amount, exp.Interval):
            amount = exp.Interval(this=amount, unit=node.args["unit"])
        return call(name, bind(node.this), bind(amount))

    return moved


def _json(name: str) -> Special:
    def read(node: exp.Expr, bind: Bind) -> Expression:
        path = node.args.get("path") or node.args.get("expression")
        text = (
            _text(path.sql().strip("'")) if isinstance(path, exp.JSONPath) else bind(path) if path is not None else None
        )
        return call(name, bind(node.this), *([] if text is None else [text]))

    return read


def _with_arguments(name: str, *keys: str) -> Special:
    """Binds a call by these arguments of its node; sqlglot's nodes have further ones for other dialects."""

    def bound(node: exp.Expr, bind: Bind) -> Expression:
        return call(name, *[bind(node.args[key]) for key in keys if isinstance(node.args.get(key), exp.Expr)])

    return bound


def _formatted(name: str) -> Special:
    def bound(node: exp.Expr, bind: Bind) -> Expression:
        format_ = node.args.get("format")
        if not isinstance(format_, exp.Literal):
            raise error_at(node, f'the format of "{name}" must be a literal', hint="for example '%Y-%m-%d'")
        return call(name, bind(node.this), _text(format_.name))

    return bound


def struct_of(node: exp.Expr, bind: Bind) -> Expression:
    """The struct of a node's values; a field without a name is f1, f2, … by its position."""
    arguments: list[Expression] = []
    for position, field in enumerate(node.expressions, 1):
        named = isinstance(field, exp.PropertyEQ | exp.Alias)
        name = (field.alias if isinstance(field, exp.Alias) else field.this.name) if named else f"f{position}"
        value = field.expression if isinstance(field, exp.PropertyEQ) else field.this if named else field
        arguments += [_text(name), bind(value)]
    return call("struct", *arguments)


def _split(node: exp.Expr, bind: Bind) -> Expression:
    """STRING_TO_ARRAY. Raises SqlError for more arguments: other systems take a limit, or a text that means NULL."""
    present = [key for key, value in node.args.items() if isinstance(value, exp.Expr)]
    if present != ["this", "expression"]:
        raise error_at(node, "STRING_TO_ARRAY takes text and a separator")
    return call("string_to_array", bind(node.this), bind(node.expression))


def _json_steps(name: str) -> Special:
    """The operators #> and #>> of PostgreSQL, whose paths are arrays as text: '{a,0}'."""
    return lambda node, bind: call(name, bind(node.this), _text(json_path(node)))


def returns_json(node: exp.Expr) -> bool:
    """Whether a node is a call that returns JSON.

    >>> returns_json(exp.func("to_jsonb", exp.Null())), returns_json(exp.func("lower", exp.Null()))
    (True, False)
    """
    node = node.unnest()
    if isinstance(node, exp.JSONObject | exp.JSONExtract | exp.JSONBExtract) or JSON_TEXT in node.meta:
        return True
    name = function_name(node) if isinstance(node, exp.Func) else ""
    return ALIASES.get(name, name) in {*BUILDING, "json_extract", "json_query"}


def _marks(nodes: Sequence[exp.Expr]) -> Literal:
    return _text("".join(JSON_MARK if returns_json(node) else TEXT_MARK for node in nodes))


def _json_object(node: exp.Expr, bind: Bind) -> Expression:
    """JSON_OBJECT('a', 1, …), JSON_OBJECT('a': 1, …)."""
    pairs = [part for part in node.expressions if isinstance(part, exp.JSONKeyValue)]
    others = [key for key in ("null_handling", "unique_keys", "return_type", "encoding") if node.args.get(key)]
    if len(pairs) < len(node.expressions) or others:
        raise error_at(
            node, "JSON_OBJECT takes only pairs of a name and a value", hint="for example JSON_OBJECT('a', 1)"
        )
    sides = [side for pair in pairs for side in (pair.this, pair.expression)]
    return call("json_object", _marks(sides), *map(bind, sides))


def json_path(node: exp.Expr) -> str:
    """The path of #> or #>> as a path of JSON_EXTRACT. Raises SqlError unless it is a literal such as '{a,0}'."""
    path = node.expression
    if not isinstance(path, exp.Literal) or not re.fullmatch(r"\{[^{}\"]*\}", path.name):
        raise error_at(node, "the path of #> and #>> must be a literal", hint="for example '{a,0,b}'")
    steps = [step.strip() for step in path.name[1:-1].split(",") if step.strip()]
    return "$" + "".join(f"[{step}]" if re.fullmatch("[0-9]+", step) else f'."{step}"' for step in steps)


def _format(node: exp.Expr, bind: Bind) -> Expression:
    bound = iter([bind(value) for value in node.expressions])
    texts = [next(bound) if part is None else _text(part) for part in format_parts(node)]
    return call("concat", *(texts or [_text("")]))


def format_parts(node: exp.Expr) -> list[str | None]:
    """The parts of the format of PostgreSQL's FORMAT: a text for each literal part, and None for each %s, in whose
    place the next argument is written (nothing for NULL). Raises SqlError if the format is not a literal, or has other
    specifiers than %s and %%."""
    text, values = node.this, list(node.expressions)
    if not isinstance(text, exp.Literal) or not text.is_string:
        raise error_at(node, "the format of FORMAT must be a literal", hint="for example FORMAT('%s of %s', a, b)")
    parts = re.split(r"(%.?)", text.name)
    wanted = parts.count("%s")
    if unknown := next((part for part in parts[1::2] if part not in ("%s", "%%")), None):
        raise error_at(node, f'FORMAT does not support "{unknown}"', hint="have: %s, %%")
    if wanted != len(values):
        raise error_at(node, f"FORMAT has {wanted} %s for {len(values)} values", hint="give one value for each %s")
    return [None if part == "%s" else part.replace("%%", "%") for part in parts if part]


def similar_pattern(node: exp.Expr) -> str:
    """The regular expression of a SIMILAR TO."""
    pattern = node.expression
    if not (isinstance(pattern, exp.Literal) and pattern.is_string):
        raise error_at(
            node,
            "the pattern of SIMILAR TO must be a literal",
            hint="use REGEXP_LIKE, whose pattern can be any expression",
        )
    return similar_regex(pattern.name)


def _overlay(node: exp.Expr, bind: Bind) -> Expression:
    """OVERLAY: the text before `start`, the new text, and the text after the `count` characters that it replaces. By
    default, `count` is the length of the new text."""
    text, new, start = (bind(node.args[key]) for key in ("this", "expression", "from_"))
    count = bind(node.args["for_"]) if node.args.get("for_") else call("length", new)
    one = Literal(1, pa.int64())
    before = call("substring", text, one, call("subtract", start, one))
    behind = call("substring", text, call("add", start, count))
    return call("concat_strict", call("concat_strict", before, new), behind)


_SPECIAL: dict[type[exp.Expr], Special] = {
    exp.JSONObject: _json_object,
    exp.JSONBExtract: _json_steps("json_extract"),
    exp.JSONBExtractScalar: _json_steps("json_extract_string"),
    exp.Format: _format,
    exp.Overlay: _overlay,
    exp.ArrayRemove: _with_arguments("array_remove", "this", "expression"),
    exp.ArrayAppend: _with_arguments("array_append", "this", "expression"),
    exp.ArrayPrepend: _with_arguments("array_prepend", "expression", "this"),
    exp.StringToArray: _split,
    exp.Split: _split,
    exp.Trim: _trim,
    exp.Pad: _pad,
    exp.Log: _log,
    exp.Extract: _extract,
    exp.TimestampTrunc: _truncated,
    exp.DateTrunc: _truncated,
    exp.DateDiff: _difference,
    exp.DateAdd: _shifted_by("add"),
    exp.DateSub: _shifted_by("subtract"),
    exp.JSONExtract: _json("json_extract"),
    exp.JSONExtractScalar: _json("json_extract_string"),
    exp.JSONValue: _json("json_value"),
    exp.JSONExists: _json("json_exists"),
    exp.ArraySize: _with_arguments("cardinality", "this"),
    exp.ArrayContains: _with_arguments("array_contains", "this", "expression"),
    exp.ArrayToString: _with_arguments("array_to_string", "this", "expression"),
    exp.ArrayContainsAll: _with_arguments("array_contains_all", "this", "expression"),
    exp.ArrayContainedBy: _with_arguments("array_contains_all", "expression", "this"),
    exp.ArrayOverlaps: _with_arguments("array_overlaps", "this", "expression"),
    exp.Initcap: _with_arguments("initcap", "this"),
    exp.StrPosition: _with_arguments("strpos", "this", "substr"),
    exp.RegexpLike: _with_arguments("regexp_like", "this", "expression", "flag"),
    exp.RegexpExtract: _with_arguments("regexp_extract", "this", "expression", "position"),
    exp.RegexpReplace: _with_arguments("regexp_replace", "this", "expression", "replacement", "modifiers"),
    exp.Round: _with_arguments("round", "this", "decimals"),
    exp.Length: _with_arguments("length", "this"),
    exp.Left: _with_arguments("left", "this", "expression"),
    exp.Right: _with_arguments("right", "this", "expression"),
    exp.UnixToTime: _with_arguments("to_timestamp", "this"),
    exp.TimeToStr: _formatted("strftime"),
    exp.StrToTime: _formatted("strptime"),
    exp.SHA2: _with_arguments("sha256", "this"),
    exp.SHA2Digest: _with_arguments("sha256", "this"),
    exp.Struct: struct_of,
}
