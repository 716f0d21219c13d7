"""Splits a one-time query between DuckDB and the engine of views, which computes its scalar expressions (sites)."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from dsms.tables.duckdb_aggregates import with_duckdb_aggregates
from dsms.tables.engine_calls import EngineCalls, Leaves, cast_in_duckdb, duckdb_type, operands
from dsms.tables.leaf_types import groups_of, probe, types_from_refusal
from dsms.tables.question import QuestionWithRows
from dsms.tables.select_wire import EngineFunction
from dsms.tables.sites import SITE, Site, sites_of
from operators.core.distinct_type import stored
from operators.expressions import Expression

#: Returns DuckDB's reason for refusing a question.
Refusal = Callable[[QuestionWithRows], str]


def with_engine_calls(asked: QuestionWithRows, refusal: Refusal) -> QuestionWithRows:
    """Replaces the scalar expressions of a question by calls of engine functions. DuckDB knows the types of what an
    expression reads, and its error messages name them (see `leaf_types`): `refusal` is called at most once for each
    expression that reads something, over relations without rows."""
    if asked.query is None:
        return asked
    found = sites_of(asked.query)
    empty = {name: rows.slice(0, 0) for name, rows in asked.relations.items()}
    bound = _bound(found.query, found.sites, lambda sql: refusal(QuestionWithRows(sql, empty)))
    calls = EngineCalls()
    for mark in found.replacements:
        site, (typed, expression) = found.sites[mark.meta[SITE]], bound[mark.meta[SITE]]
        leaves = Leaves(dict(zip(site.names, mark.expressions, strict=True)), typed.types)
        made = (
            calls.condition(expression, leaves, site.joined_items)
            if site.condition
            else calls.value(expression, leaves)
        )
        if mark is found.query:
            found.query = made
        mark.replace(made)
    text = with_duckdb_aggregates(found.query).sql(dialect="duckdb", comments=False)
    functions = tuple(_function(name, each) for name, each in calls.functions.items())
    return replace(asked, sql=text, query=None, functions=functions)


def _bound(query: exp.Expr, sites: list[Site], refusal: Callable[[str], str]) -> list[tuple[Leaves, Expression]]:
    """Binds the sites as expressions over their leaves, whose types are learned from inner sites to outer ones."""
    asked = exp.Paren(this=with_duckdb_aggregates(query))
    marks = {node.meta[SITE]: node for node in asked.walk() if SITE in node.meta}
    waiting: dict[int, exp.Expr] = {}
    for numbers in groups_of(marks):
        asks = probe({number: list(marks[number].expressions) for number in numbers})
        for number in numbers:
            waiting[number] = asks if number == numbers[0] else exp.null()
            marks[number].replace(waiting[number])
    bound: dict[int, tuple[Leaves, Expression]] = {}

    def learn(number: int, types: list[pa.DataType]) -> None:
        leaves = Leaves({}, dict(zip(sites[number].names, types, strict=True)))
        bound[number] = leaves, leaves.bound(sites[number])
        waiting.pop(number).replace(cast_in_duckdb(exp.Null(), bound[number][1].type))

    for number, site in enumerate(sites):
        if not site.names:
            learn(number, [])
    while waiting:
        for number, types in types_from_refusal(refusal(asked.this.sql(dialect="duckdb", comments=False))).items():
            learn(number, types)
    return [bound[number] for number in range(len(sites))]


def _function(name: str, expression: Expression) -> EngineFunction:
    kind = duckdb_type(stored(expression.type))
    return EngineFunction(name, kind, pickle.dumps((operands(expression), expression)))
