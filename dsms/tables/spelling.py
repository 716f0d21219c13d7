"""Functions of the language as DuckDB has them, which answers queries that run once."""

from __future__ import annotations

from collections.abc import Callable

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
    spell = _SPELLINGS.get(type(node))
    if spell is None and isinstance(node, exp.Anonymous):
        spell = _NAMED.get(node.name.upper())
    return node if spell is None else spell(node)


def _not_null(node: exp.Expr) -> exp.Expr:
    if len(node.expressions) != 1:
        return node
    value = node.expressions[0]
    refused = exp.Anonymous(this="error", expressions=[exp.Literal.string("NOT_NULL of a NULL")])
    return exp.Case(ifs=[exp.If(this=exp.Is(this=value.copy(), expression=exp.Null()), true=refused)], default=value)


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


_SPELLINGS: dict[type[exp.Expr], Callable[[exp.Expr], exp.Expr]] = {
    exp.ApproxDistinct: _count_distinct,
    exp.ApproxQuantile: lambda node: _quantile(node.this, node.args["quantile"]),
    exp.Format: _format,
    exp.Overlay: _overlay,
    exp.SimilarTo: _similar,
    exp.JSONObject: _built_json,
    exp.JSONBExtract: _json("json_extract"),
    exp.ArrayContainsAll: lambda node: _contains_all(node.this, node.expression),
    exp.ArrayContainedBy: lambda node: _contains_all(node.expression, node.this),
    exp.JSONBExtractScalar: _json("json_extract_string"),
}
_NAMED: dict[str, Callable[[exp.Expr], exp.Expr]] = {
    "NOT_NULL": _not_null,
    "ADD_INTERVALS": _added_intervals,
    "IN_ZONE": _in_zone,
    "ARRAY_CONTAINS_ALL": lambda node: _contains_all(*node.expressions) if len(node.expressions) == 2 else node,
    "ARRAY_OVERLAPS": lambda node: exp.Anonymous(this="list_has_any", expressions=node.expressions),
    **dict.fromkeys(_BUILDERS, _built_json),
    "APPROX_PERCENTILE": lambda node: _quantile(*node.expressions[:2]),
}
