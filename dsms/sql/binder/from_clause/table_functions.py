"""Binds calls of table functions in FROM."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dsms.model import logical, properties
from dsms.model.position import error_at
from dsms.model.schema import schema
from dsms.sql.binder.relation import Context, Relation, bind_relation, relation_of
from dsms.sql.binder.scalars.expressions import bind_expression
from dsms.sql.binder.scope import Entry
from dsms.sql.parser import nodes
from operators.core.errors import UserError
from operators.expressions import Column, Literal
from operators.expressions import column as column_of
from operators.table_functions.function import Arguments, TableFunction
from operators.table_functions.registry import TABLE_FUNCTIONS


def bind_table_function(node: exp.Expr, context: Context) -> Relation:
    """The result of a table function: the columns of its input relation, then those that the function adds."""
    relation = bind_relation(node.this, context)
    function = _bound_function(node, relation, context)
    if function.streams_only and not properties.append_only(relation.node):
        raise error_at(
            node, f"{node.args['function']} takes an append-only stream, but rows of this relation can be deleted"
        )
    if function.replaces_columns:
        return _replaced(node, logical.Apply(relation.node, function), context)
    added = {field.name.lower() for field in function.added}
    if taken := [entry for entry in relation.visible if entry.name.lower() in added]:
        raise error_at(node, f'the relation already has a column "{taken[0].name}"', hint="rename it with AS")
    applied = logical.Apply(relation.node, function)
    fields, alias = schema(applied), relation.scope.alias
    entries = tuple(Entry(alias, field.name, column_of(fields.field(field.name))) for field in function.added)
    scope = replace(relation.scope, fields=fields, entries=(*relation.scope.entries, *entries))
    return Relation(applied, scope, (*relation.visible, *entries))


def _replaced(node: exp.Expr, applied: logical.Node, context: Context) -> Relation:
    """The relation of a function that replaces the columns of its input."""
    if context.outer_columns:
        raise error_at(node, f"{node.args['function']} is not supported in a correlated query")
    return relation_of(applied, schema(applied), node.args.get("alias") and node.alias)


def _bound_function(node: exp.Expr, relation: Relation, context: Context) -> TableFunction:
    name, columns = node.args["function"], schema(relation.node)
    outer = tuple(column for column in context.outer_columns if column in columns.names)
    partition = tuple(_column(key, relation).name for key in node.args.get("partition") or [])
    described, constants = _arguments(node, relation)
    kind = TABLE_FUNCTIONS[name]
    try:
        return kind.bound(columns, Arguments((*outer, *partition), described, constants))
    except UserError as error:
        hint = error.hint or f"write {name}(TABLE relation, {kind.signature})"
        raise error_at(node, f"{name}: {error.message}", hint=hint) from error


def _arguments(node: exp.Expr, relation: Relation) -> tuple[tuple[Column, ...], tuple[Literal, ...]]:
    columns: list[Column] = []
    constants: list[Literal] = []
    for argument in node.expressions:
        if isinstance(argument, nodes.Descriptor):
            columns += [_column(column, relation) for column in argument.expressions]
        else:
            constants.append(_constant(argument, relation))
    return tuple(columns), tuple(constants)


def _column(node: exp.Expr, relation: Relation) -> Column:
    bound = bind_expression(node, relation.scope)
    if not isinstance(bound, Column):
        raise error_at(node, "an argument in DESCRIPTOR or PARTITION BY must be a column")
    return bound


def _constant(node: exp.Expr, relation: Relation) -> Literal:
    bound = bind_expression(node, relation.scope)
    if not isinstance(bound, Literal):
        raise error_at(node, "an argument outside of DESCRIPTOR must be a constant")
    return bound
