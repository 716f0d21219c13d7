"""Functions of the language as DuckDB has them, which answers queries that run once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from dsms.sql.binder.expression_functions import format_parts, json_path, similar_pattern
from operators.core.errors import SqlError


def spelled(query: exp.Expr) -> exp.Expr:
    """The query with the calls that DuckDB lacks, or takes for something else, in its own words.

    >>> import sqlglot
    >>> spelled(sqlglot.parse_one("SELECT FORMAT('%s!', a), APPROX_COUNT_DISTINCT(b)")).sql("duckdb")
    "SELECT CONCAT(a, '!'), COUNT(DISTINCT b)"
    """
    return query.transform(_spelled)


def _spelled(node: exp.Expr) -> exp.Expr:
    """What a node becomes with all that is within it, as nothing within a new node is looked at any more."""
    spell = _SPELLINGS.get(type(node))
    if spell is None and isinstance(node, exp.Anonymous):
        spell = _NAMED.get(node.name.upper())
    if spell is None:
        return node
    return spell(node if spell in _OUTSIDE_IN else _of_spelled_parts(node))


def _of_spelled_parts(node: exp.Expr) -> exp.Expr:
    made = node.copy()
    for part in list(made.iter_expressions()):
        part.replace(spelled(part))
    return made


def _rows_in_order(node: exp.Expr) -> exp.Expr:
    """A comparison of rows by their columns: DuckDB makes filters of such comparisons that it cannot run, and takes
    NULLs in them for the greatest values."""
    if not _comparable(node.this, node.expression):
        return node
    return exp.paren(_in_order(type(node), list(zip(node.this.expressions, node.expression.expressions, strict=True))))


def _row_between(node: exp.Expr) -> exp.Expr:
    row, low, high = (node.args[key] for key in ("this", "low", "high"))
    if node.args.get("symmetric") or not (_comparable(row, low) and _comparable(row, high)):
        return node
    ends = (exp.GTE(this=row, expression=low), exp.LTE(this=row.copy(), expression=high))
    inside = exp.paren(exp.and_(*map(_rows_in_order, ends)))
    return exp.not_(inside) if node.args.get("negate") else inside


def _comparable(left: exp.Expr, right: exp.Expr) -> bool:
    """Whether two rows are compared. Their columns are written twice, so that nested rows would grow."""
    rows = isinstance(left, exp.Tuple) and isinstance(right, exp.Tuple)
    parts = [*left.expressions, *right.expressions] if rows else []
    return rows and len(left.expressions) == len(right.expressions) and not any(part.find(exp.Tuple) for part in parts)


def _in_order(compare: type[exp.Expr], pairs: Sequence[tuple[exp.Expr, exp.Expr]]) -> exp.Expr:
    (left, right), *rest = pairs
    if not rest:
        return _of(compare, left, right)
    return exp.or_(_of(_STRICT[compare], left, right), exp.and_(_of(exp.EQ, left, right), _in_order(compare, rest)))


def _of(compare: type[exp.Expr], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return compare(this=exp.paren(left.copy()), expression=exp.paren(right.copy()))


_STRICT: dict[type[exp.Expr], type[exp.Expr]] = {exp.GT: exp.GT, exp.GTE: exp.GT, exp.LT: exp.LT, exp.LTE: exp.LT}


def _equal(node: exp.Expr) -> exp.Expr:
    """`x = ANY (ARRAY[a, b])` as `x IN (a, b)`: DuckDB makes a subquery of ANY, and does not see that the one in GROUP
    BY, or in the ORDER BY of a DISTINCT aggregate, is the one that is selected."""
    values = node.expression.this.unnest() if isinstance(node.expression, exp.Any) else None
    if not isinstance(values, exp.Array) or not values.expressions:
        return node
    return exp.paren(exp.In(this=node.this, expressions=values.expressions))


def _not_null(node: exp.Expr) -> exp.Expr:
    if len(node.expressions) != 1:
        return node
    value = node.expressions[0]
    refused = exp.Anonymous(this="error", expressions=[exp.Literal.string("NOT_NULL of a NULL")])
    return exp.Coalesce(this=value, expressions=[refused])


def _count_distinct(node: exp.Expr) -> exp.Expr:
    """A query that runs once has all values at hand, so approximate aggregates are exact."""
    return exp.Count(this=exp.Distinct(expressions=[node.this]))


def _quantile(value: exp.Expr, fraction: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="quantile_disc", expressions=[value, fraction])


def _format(node: exp.Expr) -> exp.Expr:
    values = iter(node.expressions)
    parts = [next(values) if part is None else exp.Literal.string(part) for part in format_parts(node)]
    return exp.Concat(expressions=parts or [exp.Literal.string("")], coalesce=True)


def _similar(node: exp.Expr) -> exp.Expr:
    """DuckDB's SIMILAR TO takes a regular expression."""
    return exp.RegexpLike(this=node.this, expression=exp.Literal.string(similar_pattern(node)))


def _overlay(node: exp.Expr) -> exp.Expr:
    if any(part.find(exp.Overlay) for part in node.iter_expressions()):  # each is written twice
        raise SqlError("OVERLAY within an operand of another is not supported in a query that runs once")
    node = _of_spelled_parts(node)
    text, new, start = (node.args[key] for key in ("this", "expression", "from_"))
    count = node.args.get("for_") or exp.Length(this=new.copy())
    before = exp.Substring(this=text.copy(), start=exp.Literal.number(1), length=_minus_one(start.copy()))
    behind = exp.Substring(
        this=text.copy(), start=exp.Add(this=exp.paren(start.copy()), expression=exp.paren(count.copy()))
    )
    return exp.paren(exp.DPipe(this=exp.DPipe(this=before, expression=exp.paren(new.copy())), expression=behind))


def _minus_one(number: exp.Expr) -> exp.Expr:
    return exp.Sub(this=exp.paren(number), expression=exp.Literal.number(1))


def _json(name: str) -> Callable[[exp.Expr], exp.Expr]:
    return lambda node: exp.Anonymous(this=name, expressions=[node.this, exp.Literal.string(json_path(node))])


_BUILDERS = {
    **dict.fromkeys(("JSON_BUILD_OBJECT", "JSONB_BUILD_OBJECT"), "json_object"),
    **dict.fromkeys(("JSON_ARRAY", "JSON_BUILD_ARRAY", "JSONB_BUILD_ARRAY"), "json_array"),
    **dict.fromkeys(("TO_JSON", "TO_JSONB"), "to_json"),
}


def _built_json(node: exp.Expr) -> exp.Expr:
    """A text, as in the language, where DuckDB has a type for JSON, which it never quotes within other JSON."""
    return exp.Cast(this=_json_of(node), to=exp.DataType.build("VARCHAR"))


def _json_of(node: exp.Expr) -> exp.Expr:
    name = "json_object" if isinstance(node, exp.JSONObject) else _BUILDERS[node.name.upper()]
    return exp.Anonymous(this=name, expressions=[_part(side) for part in node.expressions for side in _sides(part)])


def _sides(part: exp.Expr) -> list[exp.Expr]:
    return [part.this, part.expression] if isinstance(part, exp.JSONKeyValue) else [part]


def _part(node: exp.Expr) -> exp.Expr:
    """What is put into JSON: calls that build it as they are, all else in DuckDB's words."""
    inner = node.unnest()
    builds = isinstance(inner, exp.JSONObject) or (isinstance(inner, exp.Anonymous) and inner.name.upper() in _BUILDERS)
    return _json_of(inner) if builds else spelled(node.copy())


def _contains_all(array: exp.Expr, wanted: exp.Expr) -> exp.Expr:
    """DuckDB's list_has_all passes over NULLs, which no array contains."""
    inside = (exp.ArrayContainsAll, exp.ArrayContainedBy)
    if array.find(*inside) or wanted.find(*inside):  # each is written twice, so that nested ones would grow
        raise SqlError("@> or <@ within an operand of another is not supported in a query that runs once")
    array, wanted = spelled(array), spelled(wanted)
    has = exp.Anonymous(this="list_has_all", expressions=[array, wanted])
    known, size = (exp.Anonymous(this=name, expressions=[wanted.copy()]) for name in ("list_count", "len"))
    missing = exp.Is(this=array.copy(), expression=exp.Null())
    return exp.paren(exp.and_(has, exp.or_(missing, exp.EQ(this=known, expression=size))))


#: Of ADD_INTERVALS and IN_ZONE.
_OPERANDS = 3


def _added_intervals(node: exp.Expr) -> exp.Expr:
    if len(node.expressions) != _OPERANDS:
        return node
    time, interval, count = node.expressions
    return exp.paren(exp.Add(this=exp.paren(time), expression=exp.Mul(this=interval, expression=exp.paren(count))))


def _in_zone(node: exp.Expr) -> exp.Expr:
    if len(node.expressions) != _OPERANDS:
        return node
    time, source, target = node.expressions
    return exp.AtTimeZone(this=exp.paren(exp.AtTimeZone(this=exp.paren(time), zone=source)), zone=target)


def _contains(node: exp.Expr) -> exp.Expr:
    return _contains_all(node.this, node.expression)


def _contained(node: exp.Expr) -> exp.Expr:
    return _contains_all(node.expression, node.this)


def _contains_call(node: exp.Expr) -> exp.Expr:
    return _contains_all(*node.expressions) if len(node.expressions) == 2 else node


#: These spell what is within them by themselves, as it depends on where it is.
_OUTSIDE_IN: list[Callable[[exp.Expr], exp.Expr]] = [_built_json, _contains, _contained, _contains_call, _overlay]
_SPELLINGS: dict[type[exp.Expr], Callable[[exp.Expr], exp.Expr]] = {
    exp.ApproxDistinct: _count_distinct,
    exp.ApproxQuantile: lambda node: _quantile(node.this, node.args["quantile"]),
    exp.Format: _format,
    exp.Overlay: _overlay,
    exp.SimilarTo: _similar,
    exp.Between: _row_between,
    exp.EQ: _equal,
    **dict.fromkeys(_STRICT, _rows_in_order),
    exp.JSONObject: _built_json,
    exp.JSONBExtract: _json("json_extract"),
    exp.ArrayContainsAll: _contains,
    exp.ArrayContainedBy: _contained,
    exp.JSONBExtractScalar: _json("json_extract_string"),
}
_NAMED: dict[str, Callable[[exp.Expr], exp.Expr]] = {
    "NOT_NULL": _not_null,
    "ADD_INTERVALS": _added_intervals,
    "IN_ZONE": _in_zone,
    "ARRAY_CONTAINS_ALL": _contains_call,
    "ARRAY_OVERLAPS": lambda node: exp.Anonymous(this="list_has_any", expressions=node.expressions),
    **dict.fromkeys(_BUILDERS, _built_json),
    "APPROX_PERCENTILE": lambda node: _quantile(*node.expressions[:2]),
}
