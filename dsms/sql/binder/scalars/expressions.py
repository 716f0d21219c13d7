"""Binds a parsed SQL expression in a scope: returns a typed expression tree."""

import datetime
from decimal import Decimal
from functools import reduce, singledispatch

import pyarrow as pa
from sqlglot import exp

from dsms.model.position import error_at, position_of
from dsms.model.types import parse_type
from dsms.sql.binder.scalars.expression_functions import PYTHON, bind_function, similar_pattern, struct_of
from dsms.sql.binder.scalars.python_functions import bind_python_call
from dsms.sql.binder.scalars.times import bind_time_arithmetic
from dsms.sql.binder.scope import Scope
from dsms.sql.parser.interval import parse_interval
from operators.core.errors import SqlError, UserError
from operators.expressions import Call, Column, Expression, Literal, call, cast

__all__ = ["bind_expression", "position_of"]

_BINARY: dict[type[exp.Expr], str] = {
    exp.EQ: "equal",
    exp.NEQ: "not_equal",
    exp.LT: "less",
    exp.LTE: "less_or_equal",
    exp.GT: "greater",
    exp.GTE: "greater_or_equal",
    exp.NullSafeEQ: "not_distinct",
    exp.NullSafeNEQ: "distinct",
    exp.Add: "add",
    exp.Sub: "subtract",
    exp.Mul: "multiply",
    exp.Div: "divide",
    exp.IntDiv: "divide",
    exp.Mod: "modulo",
    exp.And: "and",
    exp.Or: "or",
    exp.BitwiseAnd: "bit_and",
    exp.BitwiseOr: "bit_or",
    exp.BitwiseXor: "bit_xor",
    exp.BitwiseLeftShift: "shift_left",
    exp.BitwiseRightShift: "shift_right",
}
_IS = {
    (exp.Null, False): "is_null",
    (exp.Null, True): "is_not_null",
    (True, False): "is_true",
    (True, True): "is_not_true",
    (False, False): "is_false",
    (False, True): "is_not_false",
}


def bind_expression(node: exp.Expr, scope: Scope) -> Expression:
    """Binds a node: returns a typed expression. Raises SqlError with line and column if that is not possible.

    >>> from sqlglot import parse_one
    >>> from operators.expressions import to_sql
    >>> scope = Scope(pa.schema([("price", pa.int64()), ("name", pa.string())]), "b")
    >>> to_sql(bind_expression(parse_one("B.Price * 2 > 10 and name is not null"), scope))
    'price * 2 > 10 AND name IS NOT NULL'
    >>> bind_expression(parse_one("price + name"), scope)
    Traceback (most recent call last):
    operators.core.errors.SqlError: line 1, column 1: "add" does not take (BIGINT, VARCHAR) in "price + name"; ...
    """
    try:
        known = scope.rewritten(node)
        return _bind(node, scope) if known is None else known
    except SqlError:
        raise
    except UserError as error:
        raise error_at(node, error.message, hint=error.hint) from error


@singledispatch
def _bind(node: exp.Expr, scope: Scope) -> Expression:
    if isinstance(node, exp.EQ | exp.NEQ) and (sides := _row_pairs(node.this, node.expression)) is not None:
        same = _rows_equal(sides, scope)
        return same if isinstance(node, exp.EQ) else call("not", same)
    if isinstance(node, exp.LT | exp.LTE | exp.GT | exp.GTE) and (sides := _row_pairs(node.this, node.expression)):
        return _rows_compared(_BINARY[type(node)], sides, scope)
    if isinstance(node, exp.EQ) and (listed := _any_of(node.expression)) is not None:
        return bind_expression(exp.In(this=node.this, expressions=listed), scope)
    if isinstance(node, exp.EQ) and isinstance(node.expression, exp.Any):
        return call("equals_any", bind_expression(node.expression.this, scope), bind_expression(node.this, scope))
    if (timed := bind_time_arithmetic(node, lambda child: bind_expression(child, scope))) is not None:
        return timed
    if (name := _BINARY.get(type(node))) is not None:
        return call(name, bind_expression(node.this, scope), bind_expression(node.expression, scope))
    if (defined := node.meta.get(PYTHON)) is not None:
        return bind_python_call(node, defined, lambda child: bind_expression(child, scope))
    if isinstance(node, exp.Func):
        return bind_function(node, lambda child: bind_expression(child, scope))
    raise error_at(node, f'"{node.key.upper()}" is not supported in a row expression')


def _any_of(node: exp.Expr) -> list[exp.Expr] | None:
    """The values of `ANY (ARRAY[…])`, which is IN; None for every other node."""
    array = node.this.unnest() if isinstance(node, exp.Any) else None
    return array.expressions if isinstance(array, exp.Array) else None


@_bind.register
def _(node: exp.Paren, scope: Scope) -> Expression:
    return bind_expression(node.this, scope)


@_bind.register
def _(node: exp.Alias, scope: Scope) -> Expression:
    return bind_expression(node.this, scope)


@_bind.register
def _(node: exp.Column, scope: Scope) -> Expression:
    if isinstance(node.this, exp.Star):
        raise error_at(node, '"*" is not supported in a row expression')
    return _path([part.name for part in node.parts], scope)


@_bind.register
def _(node: exp.Identifier, scope: Scope) -> Expression:
    return scope.resolve(node.name)


@_bind.register
def _(node: exp.Var, scope: Scope) -> Expression:
    return scope.resolve(node.name)


def _path(names: list[str], scope: Scope) -> Expression:
    """`a.b.c` is the field c of the column a.b if a is an alias, else the field b.c of the column a."""
    column: Column | None = scope.find(names[1], names[0]) if len(names) > 1 else None
    fields = names[2:]
    if column is None and len(names) > 1:
        column, fields = scope.find(names[0]), names[1:]
    if column is None:
        return scope.resolve(names[1], names[0]) if len(names) > 1 else scope.resolve(names[0])
    start: Expression = column
    return reduce(field_of, fields, start)


def field_of(struct: Expression, name: str) -> Call:
    """The access to a field of a struct, in the declared spelling."""
    return call("field", struct, Literal(name, pa.string()))


@_bind.register
def _(node: exp.Dot, scope: Scope) -> Expression:
    if not isinstance(node.expression, exp.Identifier):
        raise error_at(node, f'"{node.expression.sql()}" is not a field name')
    return field_of(bind_expression(node.this, scope), node.expression.name)


@_bind.register
def _(node: exp.Literal, scope: Scope) -> Expression:
    return Literal(node.this, pa.string()) if node.is_string else _number(node.this)


@_bind.register
def _(node: exp.HexString, scope: Scope) -> Expression:
    try:
        return Literal(bytes.fromhex(node.name), pa.binary())
    except ValueError as error:
        raise error_at(
            node, f'"{node.name}" is not hexadecimal', hint="write two hexadecimal digits for each byte, as in X'00FF'"
        ) from error


@_bind.register
def _(node: exp.Null, scope: Scope) -> Expression:
    return Literal(None, pa.null())


@_bind.register
def _(node: exp.Boolean, scope: Scope) -> Expression:
    return Literal(bool(node.this), pa.bool_())


def _number(text: str) -> Literal:
    """Integers are INTEGER, BIGINT or DECIMAL by size; numbers with a point are DECIMAL, with an exponent DOUBLE."""
    if "e" in text.lower():
        return Literal(float(text), pa.float64())
    value = Decimal(text)
    digits, exponent = len(value.as_tuple().digits), -int(value.as_tuple().exponent)
    if exponent > 0:
        precision = max(digits, exponent)
        return (
            Literal(value, pa.decimal128(precision, exponent))
            if precision <= 38
            else Literal(float(text), pa.float64())
        )
    for type_, bits in ((pa.int32(), 31), (pa.int64(), 63)):
        if -(2**bits) <= value < 2**bits:
            return Literal(int(value), type_)
    return Literal(value, pa.decimal128(digits, 0)) if digits <= 38 else Literal(float(text), pa.float64())


@_bind.register
def _(node: exp.Neg, scope: Scope) -> Expression:
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        return _number("-" + node.this.this)
    return call("negate", bind_expression(node.this, scope))


@_bind.register
def _(node: exp.Not, scope: Scope) -> Expression:
    if isinstance(node.this, exp.Is):
        return _is(node.this, scope, negated=not node.this.args.get("negate"))
    return call("not", bind_expression(node.this, scope))


@_bind.register
def _(node: exp.BitwiseNot, scope: Scope) -> Expression:
    return call("bit_not", bind_expression(node.this, scope))


@_bind.register
def _(node: exp.Is, scope: Scope) -> Expression:
    return _is(node, scope, negated=bool(node.args.get("negate")))


def _is(node: exp.Is, scope: Scope, *, negated: bool) -> Expression:
    test = node.expression
    if isinstance(test, exp.Not):
        negated, test = not negated, test.this
    key = (exp.Null, negated) if isinstance(test, exp.Null) else (test.this, negated)
    if not isinstance(test, exp.Null | exp.Boolean):
        raise error_at(node, f'"IS {test.sql()}" is not supported', hint="have: NULL, TRUE, FALSE, DISTINCT FROM")
    return call(_IS[key], bind_expression(node.this, scope))


@_bind.register
def _(node: exp.Between, scope: Scope) -> Expression:
    if node.args.get("symmetric"):
        raise error_at(node, "BETWEEN SYMMETRIC is not supported", hint="use BETWEEN LEAST(a, b) AND GREATEST(a, b)")
    if (above := _row_pairs(node.this, node.args["low"])) and (below := _row_pairs(node.this, node.args["high"])):
        ends = (_rows_compared("greater_or_equal", above, scope), _rows_compared("less_or_equal", below, scope))
        return _negated(node, call("and", *ends))
    value = bind_expression(node.this, scope)
    low, high = bind_expression(node.args["low"], scope), bind_expression(node.args["high"], scope)
    inside = call("and", call("greater_or_equal", value, low), call("less_or_equal", value, high))
    return _negated(node, inside)


def _negated(node: exp.Expr, result: Expression) -> Expression:
    return call("not", result) if node.args.get("negate") else result


@_bind.register
def _(node: exp.In, scope: Scope) -> Expression:
    if node.args.get("query") or node.args.get("unnest"):
        raise error_at(node, "a subquery is not supported in a row expression")
    if (rows := [_row_pairs(node.this, choice) for choice in node.expressions]) and all(
        row is not None for row in rows
    ):
        tests = [_rows_equal(row, scope) for row in rows if row is not None]
        return tests[0] if len(tests) == 1 else call("or", *tests)
    value = bind_expression(node.this, scope)
    choices = [bind_expression(choice, scope) for choice in node.expressions]
    if all(isinstance(choice, Literal) for choice in choices):
        return call("in", value, *choices)
    tests = [call("equal", value, choice) for choice in choices]
    return tests[0] if len(tests) == 1 else call("or", *tests)


def _row_pairs(left: exp.Expr, right: exp.Expr) -> list[tuple[exp.Expr, exp.Expr]] | None:
    """The pairs of values of two rows in parentheses, `(a, b)` and `(1, 2)`; None if these are not two rows."""
    one, other = left.unnest(), right.unnest()
    if not (isinstance(one, exp.Tuple) and isinstance(other, exp.Tuple)):
        return None
    if len(one.expressions) != len(other.expressions):
        raise error_at(
            right, f"cannot compare a row of {len(one.expressions)} values with a row of {len(other.expressions)}"
        )
    return list(zip(one.expressions, other.expressions, strict=True))


def _rows_equal(pairs: list[tuple[exp.Expr, exp.Expr]], scope: Scope) -> Expression:
    """Whether the two values of each pair are equal."""
    tests = [call("equal", bind_expression(one, scope), bind_expression(other, scope)) for one, other in pairs]
    return tests[0] if len(tests) == 1 else call("and", *tests)


def _rows_compared(operator: str, pairs: list[tuple[exp.Expr, exp.Expr]], scope: Scope) -> Expression:
    """Compares two rows by an operator such as `less`: the first pair of values that differ decides."""
    one, other = (bind_expression(value, scope) for value in pairs[0])
    if len(pairs) == 1:
        return call(operator, one, other)
    rest = call("and", call("equal", one, other), _rows_compared(operator, pairs[1:], scope))
    return call("or", call(operator.removesuffix("_or_equal"), one, other), rest)


@_bind.register
def _(node: exp.Like, scope: Scope) -> Expression:
    return _negated(node, _like("like", node, scope))


@_bind.register
def _(node: exp.ILike, scope: Scope) -> Expression:
    return _negated(node, _like("ilike", node, scope))


@_bind.register
def _(node: exp.SimilarTo, scope: Scope) -> Expression:
    pattern = call("regexp_like", bind_expression(node.this, scope), Literal(similar_pattern(node), pa.string()))
    return _negated(node, pattern)


@_bind.register
def _(node: exp.Escape, scope: Scope) -> Expression:
    if isinstance(node.this, exp.SimilarTo):
        raise error_at(
            node, "SIMILAR TO has no ESCAPE", hint="write a backslash before a character that is meant literally"
        )
    name = "ilike" if isinstance(node.this, exp.ILike) else "like"
    return _negated(node.this, _like(name, node.this, scope, bind_expression(node.expression, scope)))


def _like(name: str, node: exp.Expr, scope: Scope, *escape: Expression) -> Expression:
    return call(name, bind_expression(node.this, scope), bind_expression(node.expression, scope), *escape)


@_bind.register
def _(node: exp.Case, scope: Scope) -> Expression:
    subject = node.args.get("this")
    arguments: list[Expression] = []
    for branch in node.args["ifs"]:
        condition = bind_expression(branch.this, scope)
        if subject is not None:
            condition = call("equal", bind_expression(subject, scope), condition)
        arguments += [condition, bind_expression(branch.args["true"], scope)]
    default = node.args.get("default")
    arguments.append(Literal(None, pa.null()) if default is None else bind_expression(default, scope))
    return call("case", *arguments)


@_bind.register
def _(node: exp.Cast, scope: Scope) -> Expression:
    return _cast(node, scope, safe=False)


@_bind.register
def _(node: exp.TryCast, scope: Scope) -> Expression:
    return _cast(node, scope, safe=True)


def _cast(node: exp.Cast, scope: Scope, *, safe: bool) -> Expression:
    target, value = parse_type(node.to), bind_expression(node.this, scope)
    result = cast(value, target, safe=safe)
    folds = pa.types.is_date32(target) or pa.types.is_timestamp(target)
    if folds and not safe and isinstance(value, Literal) and isinstance(value.value, str):
        return _parsed_time(value.value, target, node)
    return result


def _parsed_time(text: str, target: pa.DataType, node: exp.Expr) -> Literal:
    try:
        moment = datetime.datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise error_at(
            node, f'"{text}" is not a date or time', hint="for example 2024-01-31 or 2024-01-31 12:30:00"
        ) from error
    if moment.tzinfo is not None:
        moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    return Literal(moment.date() if pa.types.is_date32(target) else moment, target)


@_bind.register
def _(node: exp.Interval, scope: Scope) -> Expression:
    return Literal(parse_interval(node), pa.month_day_nano_interval())


@_bind.register
def _(node: exp.Array, scope: Scope) -> Expression:
    return call("array", *[bind_expression(element, scope) for element in node.expressions])


def _bound_of(node: exp.Expr | None, default: int, scope: Scope) -> Expression:
    """A bound of a slice; `default`, the start or end of the array, if it is left out."""
    return Literal(default, pa.int64()) if node is None else bind_expression(node, scope)


@_bind.register
def _(node: exp.DPipe, scope: Scope) -> Expression:
    left, right = bind_expression(node.this, scope), bind_expression(node.expression, scope)
    arrays = isinstance(left.type, pa.ListType), isinstance(right.type, pa.ListType)
    name = {(True, True): "array_concat", (True, False): "array_append", (False, True): "array_prepend"}
    return call(name.get(arrays, "concat_strict"), left, right)


@_bind.register
def _(node: exp.Tuple, scope: Scope) -> Expression:
    return struct_of(node, lambda child: bind_expression(child, scope))


@_bind.register
def _(node: exp.Bracket, scope: Scope) -> Expression:
    if len(node.expressions) != 1:
        raise error_at(node, "an array takes exactly one subscript", hint="a[1] is the first element")
    if isinstance(part := node.expressions[0], exp.Slice):
        bounds = [_bound_of(part.args.get(key), last, scope) for key, last in (("this", 1), ("expression", 2**31))]
        return call("array_slice", bind_expression(node.this, scope), *bounds)
    index = bind_expression(node.expressions[0], scope)
    if isinstance(index, Literal) and isinstance(index.value, int) and _counts_from_zero(node.expressions[0]):
        index = Literal(index.value + 1, index.type)
    return call("subscript", bind_expression(node.this, scope), index)


def _counts_from_zero(index: exp.Expr) -> bool:
    """Whether the PostgreSQL parser replaced a literal index by one that counts from 0: the new literal has no location
    in the text."""
    return not any("line" in part.meta for part in index.walk())


@_bind.register
def _(node: exp.JSONValue, scope: Scope) -> Expression:
    return bind_function(node, lambda child: bind_expression(child, scope))


@_bind.register
def _(node: exp.JSONPath, scope: Scope) -> Expression:
    return Literal(node.sql().strip("'"), pa.string())


@_bind.register(exp.Subquery)
@_bind.register(exp.Select)
@_bind.register(exp.Exists)
@_bind.register(exp.SubqueryPredicate)
def _(node: exp.Expr, scope: Scope) -> Expression:
    raise error_at(node, "a subquery is not supported in a row expression")


@_bind.register(exp.Window)
def _(node: exp.Window, scope: Scope) -> Expression:
    raise error_at(node, f'window function "{node.this.sql()}" is not supported in a row expression')


@_bind.register(exp.AggFunc)
def _(node: exp.AggFunc, scope: Scope) -> Expression:
    raise error_at(node, f'aggregate "{node.sql_name()}" is not supported in a row expression')
