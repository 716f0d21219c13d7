"""Functions of the language as DuckDB has them, which answers queries that run once."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dsms.sql.binder.expression_functions import format_parts, json_path, similar_pattern


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


_SPELLINGS: dict[type[exp.Expr], Callable[[exp.Expr], exp.Expr]] = {
    exp.ApproxDistinct: _count_distinct,
    exp.ApproxQuantile: lambda node: _quantile(node.this, node.args["quantile"]),
    exp.Format: _format,
    exp.Overlay: _overlay,
    exp.SimilarTo: _similar,
    exp.JSONBExtract: _json("json_extract"),
    exp.JSONBExtractScalar: _json("json_extract_string"),
}
_NAMED: dict[str, Callable[[exp.Expr], exp.Expr]] = {
    "NOT_NULL": _not_null,
    "APPROX_PERCENTILE": lambda node: _quantile(*node.expressions[:2]),
}
