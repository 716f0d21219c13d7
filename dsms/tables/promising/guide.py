"""Which summaries lead a SELECT to its promising tuples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import polars as pl
import pyarrow as pa
from sqlglot import exp

from dsms.model import logical, properties
from dsms.model.catalog import Catalog
from dsms.model.objects import Query
from dsms.model.statements import Estimate, Preference
from dsms.registration.object_columns import schema_and_keys
from dsms.sql.binder.bind import plan_of
from dsms.sql.parser import nodes
from dsms.sql.parser.queries import parse_query
from dsms.sql.parser.summaries import FUNCTION
from dsms.sql.parser.table_names import name_of
from operators.core.distinct_type import stored
from operators.table_functions.summarize import Summarize


@dataclass(frozen=True)
class Guide:
    """What leads to the promising tuples of a stream: the name and the operator of a summary of it. `wanted` are the
    constants that conditions of the query ask the column for; None: there is no such condition."""

    summary: str
    function: Summarize
    columns: pa.Schema
    by_amount: bool = False
    wanted: pl.Series | None = None


def guides_of(query: exp.Expr, preference: Preference, catalog: Catalog) -> dict[str, Guide]:
    """The guide to each stream that the preference is about, by the name of the stream.

    Raises SqlError for a name that is no stream of the query, and where there is no summary of its column.
    """
    guides: dict[str, Guide] = {}
    aliases = {table.alias_or_name.lower(): table for table in query.find_all(exp.Table)}
    for estimate in preference.estimates:
        table = _table(estimate, aliases)
        stream = catalog.find(name_of(table), estimate.place).name
        if stream in guides:
            raise estimate.place.error(f'PREFERENCE has two estimates of "{stream}"')
        summary, function = _summary(stream, estimate, catalog)
        columns = schema_and_keys(catalog.find(stream), catalog)[0]
        kind = stored(columns.field(function.column).type)
        if estimate.by_amount and not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise estimate.place.error(f'"{function.column}" is no number, so there is nothing to multiply')
        wanted = _wanted(query, table, function.column, kind)
        guides[stream] = Guide(summary, function, columns, estimate.by_amount, wanted)
    return guides


def _table(estimate: Estimate, aliases: dict[str, exp.Table]) -> exp.Table:
    if estimate.alias is None and len(aliases) == 1:
        return next(iter(aliases.values()))
    if estimate.alias is None or estimate.alias.lower() not in aliases:
        asked = "a column without its stream" if estimate.alias is None else f'"{estimate.alias}"'
        raise estimate.place.error(f"{asked} is ambiguous or not in FROM", f"have: {', '.join(aliases)}")
    return aliases[estimate.alias.lower()]


def _summary(stream: str, estimate: Estimate, catalog: Catalog) -> tuple[str, Summarize]:
    known = []
    for query, of in _summaries(catalog):
        if of.lower() == stream.lower():
            function = _function(query, catalog)
            if function.column.lower() == estimate.column.lower():
                return query.name, function
            known.append(function.column)
    hint = f"CREATE SUMMARY name ON {stream} ({estimate.column}) WITH GRANULARITY … AND COLLAPSE(…)"
    has = f"; it has summaries of {', '.join(known)}" if known else ""
    raise estimate.place.error(f'there is no summary of "{stream}" by "{estimate.column}"{has}', hint)


def _summaries(catalog: Catalog) -> Iterator[tuple[Query, str]]:
    """The summaries of a catalog, each with the name of its stream."""
    for query in catalog.queries():
        if FUNCTION in query.select:
            call = parse_query(query.select).find(nodes.TableFunction)
            if call is not None and call.args["function"] == FUNCTION and isinstance(call.this, exp.Table):
                yield query, name_of(call.this)


def _function(query: Query, catalog: Catalog) -> Summarize:
    """The operator of a summary."""
    applied = next(node for node in properties.walk(plan_of(query.name, catalog)) if isinstance(node, logical.Apply))
    return cast(Summarize, applied.function)


def _wanted(query: exp.Expr, table: exp.Table, column: str, kind: pa.DataType) -> pl.Series | None:
    """The constants of `column = constant` or `column IN (…)`, in the WHERE of the SELECT that names the table."""
    number, text = pa.types.is_integer(kind), pa.types.is_string(kind)
    select = table.find_ancestor(exp.Select)
    where = select.args.get("where") if select is not None else None
    if where is None or not (number or text):
        return None
    conditions = where.this.flatten() if isinstance(where.this, exp.And) else [where.this]
    asked = (_constants(condition.unnest(), table, column) for condition in conditions)
    found = next((constants for constants in asked if constants), [])
    if not found or any(constant.is_string is number for constant in found):
        return None
    return pl.Series([int(constant.name) if number else constant.name for constant in found])


def _constants(condition: exp.Expr, table: exp.Table, column: str) -> list[exp.Literal]:
    """The constants with which a condition compares the column; [] for any other condition."""
    if isinstance(condition, exp.EQ):
        sides = [condition.left, condition.right]
    elif isinstance(condition, exp.In):
        sides = [condition.this, *condition.expressions]
    else:
        return []
    constants = [side for side in sides if isinstance(side, exp.Literal) and (side.is_string or side.name.isdecimal())]
    columns = [side for side in sides if isinstance(side, exp.Column) and side.name.lower() == column.lower()]
    of_table = all(side.table.lower() in ("", table.alias_or_name.lower()) for side in columns)
    return constants if len(columns) == 1 and len(constants) == len(sides) - 1 and of_table else []
