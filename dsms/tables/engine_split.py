"""Splits a one-time query between DuckDB and the engine of views, which computes its scalar expressions."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from dsms.tables.duckdb_aggregates import with_duckdb_aggregates
from dsms.tables.engine_calls import EngineCalls, Leaves, cast_in_duckdb, duckdb_type, operands
from dsms.tables.engine_expressions import ENGINE_EXPRESSION, EngineExpression, engine_expressions_of
from dsms.tables.leaf_types import groups_of, probe, types_from_refusal
from dsms.tables.one_time_query import OneTimeQueryWithRows
from dsms.tables.select_wire import EngineFunction
from operators.core.distinct_type import stored
from operators.expressions import Expression

#: Returns DuckDB's reason for refusing a query.
Refusal = Callable[[OneTimeQueryWithRows], str]


def with_engine_calls(asked: OneTimeQueryWithRows, refusal: Refusal) -> OneTimeQueryWithRows:
    """Replaces the scalar expressions of a query by calls of engine functions. DuckDB knows the types of what an
    expression reads, and its error messages name them (see `leaf_types`): `refusal` is called at most once for each
    expression that reads something, over relations without rows."""
    if asked.query is None:
        return asked
    split = engine_expressions_of(asked.query)
    empty = {name: rows.slice(0, 0) for name, rows in asked.relations.items()}
    bound = _bound_expressions(split.query, split.found, lambda sql: refusal(OneTimeQueryWithRows(sql, empty)))
    calls = EngineCalls()
    for mark in split.replacements:
        number = mark.meta[ENGINE_EXPRESSION]
        replaced, (typed, expression) = split.found[number], bound[number]
        leaves = Leaves(dict(zip(replaced.names, mark.expressions, strict=True)), typed.types)
        made = (
            calls.condition(expression, leaves, replaced.joined_items)
            if replaced.condition
            else calls.value(expression, leaves)
        )
        if mark is split.query:
            split.query = made
        mark.replace(made)
    text = with_duckdb_aggregates(split.query).sql(dialect="duckdb", comments=False)
    functions = tuple(_function(name, each) for name, each in calls.functions.items())
    return replace(asked, sql=text, query=None, functions=functions)


def _bound_expressions(
    query: exp.Expr, found: list[EngineExpression], refusal: Callable[[str], str]
) -> list[tuple[Leaves, Expression]]:
    """Binds the engine expressions over their leaves. The types of leaves are learned for inner expressions first."""
    asked = exp.Paren(this=with_duckdb_aggregates(query))
    marks = {node.meta[ENGINE_EXPRESSION]: node for node in asked.walk() if ENGINE_EXPRESSION in node.meta}
    waiting: dict[int, exp.Expr] = {}
    for numbers in groups_of(marks):
        probe_call = probe({number: list(marks[number].expressions) for number in numbers})
        for number in numbers:
            waiting[number] = probe_call if number == numbers[0] else exp.null()
            marks[number].replace(waiting[number])
    bound: dict[int, tuple[Leaves, Expression]] = {}

    def learn(number: int, types: list[pa.DataType]) -> None:
        leaves = Leaves({}, dict(zip(found[number].names, types, strict=True)))
        bound[number] = leaves, leaves.bound(found[number])
        waiting.pop(number).replace(cast_in_duckdb(exp.Null(), bound[number][1].type))

    for number, each in enumerate(found):
        if not each.names:
            learn(number, [])
    while waiting:
        for number, types in types_from_refusal(refusal(asked.this.sql(dialect="duckdb", comments=False))).items():
            learn(number, types)
    return [bound[number] for number in range(len(found))]


def _function(name: str, expression: Expression) -> EngineFunction:
    kind = duckdb_type(stored(expression.type))
    return EngineFunction(name, kind, pickle.dumps((operands(expression), expression)))
