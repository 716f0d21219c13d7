"""Binds user-defined aggregates: turns the text of a definition and the types of its arguments into a `Definition`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError

from dsms.model.position import error_at
from dsms.model.types import parse_type
from dsms.sql.binder.aggregates.aggregate_queries import QueryBinder
from dsms.sql.binder.scope import Scope
from dsms.sql.parser import aggregates as syntax
from dsms.sql.parser.dialect import Dsms
from dsms.sql.parser.nodes import WholeQuery
from dsms.sql.parser.rewrites import rewritten
from dsms.sql.parser.table_names import name_of
from operators.core.errors import SqlError, UserError
from operators.expressions import Call, Column, Expression, Literal, cast, coerce, type_name
from operators.user_aggregates import definition as defined
from operators.user_aggregates.generate import EVERY_CODE, generated

#: Finds the definition of a base aggregate that a body calls, for arguments of some types.
Resolver = Callable[[str, tuple[pa.DataType, ...]], defined.Definition | None]
_TYPES = "integers, REAL, DOUBLE, BOOLEAN, VARCHAR, DATE and TIMESTAMP"


def body_type(type_: pa.DataType) -> pa.DataType | None:
    """The type in which the body of an aggregate holds values of a type; None if it cannot hold them.

    >>> body_type(pa.float32()), body_type(pa.decimal128(9, 2)), body_type(pa.list_(pa.int32()))
    (DataType(double), DataType(double), None)
    """
    if pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return pa.float64()
    plain = pa.types.is_integer(type_) or pa.types.is_boolean(type_) or pa.types.is_string(type_)
    return type_ if plain or pa.types.is_date32(type_) or type_ == pa.timestamp("us") else None


def bind_aggregate(
    declaration: syntax.CreateAggregate, arguments: Sequence[pa.DataType] | None, resolve: Resolver
) -> defined.Definition:
    """The definition for arguments of these types; None means the declared types. Raises SqlError with the location."""
    parameters = parameter_types(declaration, arguments)
    bound = _BodyBinder(declaration, parameters, resolve).definition()
    try:
        generated(bound, nulls=True, codes=EVERY_CODE)
    except UserError as error:
        raise declaration.name.place.error(
            f'aggregate "{declaration.name.text}": {error.message}', error.hint
        ) from error
    return bound


def parameter_types(
    declaration: syntax.AggregateSyntax, arguments: Sequence[pa.DataType] | None
) -> tuple[tuple[str, pa.DataType], ...]:
    """The parameters for arguments of these types; None means the declared types. Raises SqlError or UserError."""
    if arguments is not None and len(arguments) != len(declaration.parameters):
        count_ = len(declaration.parameters)
        raise UserError(f'"{declaration.name.text}" takes {count_} argument{"s" * (count_ != 1)}, not {len(arguments)}')
    return tuple(
        (field_.name.text.lower(), _parameter_type(declaration, field_, None if arguments is None else arguments[at]))
        for at, field_ in enumerate(declaration.parameters)
    )


def result_type(declaration: syntax.AggregateSyntax, parameters: tuple[tuple[str, pa.DataType], ...]) -> pa.DataType:
    """The type of the aggregate's result. Raises SqlError."""
    if len(declaration.result) == 1:
        return _type_of_column(declaration.result[0], parameters)
    return pa.struct([(column.name.text, _type_of_column(column, parameters)) for column in declaration.result])


def _type_of_column(column: syntax.FieldSyntax, parameters: tuple[tuple[str, pa.DataType], ...]) -> pa.DataType:
    """The declared type of a column; the name of a parameter means the type of that parameter."""
    named = dict(parameters).get((column.type or "").lower())
    return _declared(column) if named is None else named


def _parameter_type(
    declaration: syntax.AggregateSyntax, parameter: syntax.FieldSyntax, argument: pa.DataType | None
) -> pa.DataType:
    if parameter.type is None:
        type_ = None if argument is None else body_type(argument)
        if type_ is None:
            given = "" if argument is None else f", not {type_name(argument)}"
            raise parameter.name.place.error(f'"{parameter.name.text}" takes {_TYPES}{given}')
        return type_
    type_ = _declared(parameter)
    if argument is not None and not _is_assignable(argument, type_):
        wanted, given = type_name(type_), type_name(argument)
        raise UserError(f'"{declaration.name.text}" takes {wanted} as "{parameter.name.text}", not {given}')
    return type_


def _is_assignable(argument: pa.DataType, type_: pa.DataType) -> bool:
    """Whether a value of type `argument` can be passed as `type_`: integers as integers, any number as DOUBLE, dates as
    TIMESTAMP, and NULL as anything."""
    if pa.types.is_null(argument) or argument == type_:
        return True
    if pa.types.is_date32(argument) and pa.types.is_timestamp(type_):
        return True
    if pa.types.is_timestamp(argument) or pa.types.is_integer(type_):
        return bool(pa.types.is_timestamp(type_) or pa.types.is_integer(argument))
    numbers = pa.types.is_integer(argument) or pa.types.is_floating(argument) or pa.types.is_decimal(argument)
    return bool(numbers and pa.types.is_floating(type_))


def _declared(field_: syntax.FieldSyntax) -> pa.DataType:
    """The declared type of a field. Raises SqlError for a type that bodies cannot hold."""
    assert field_.type is not None
    try:
        type_ = body_type(parse_type(field_.type))
    except UserError as error:
        raise field_.name.place.error(error.message.rpartition(": ")[2], error.hint) from error
    if type_ is None:
        raise field_.name.place.error(f'type "{field_.type}" is not supported in an aggregate', f"have: {_TYPES}")
    return type_


@dataclass
class _BodyBinder:
    declaration: syntax.CreateAggregate
    parameters: tuple[tuple[str, pa.DataType], ...]
    resolve: Resolver
    tables: dict[str, defined.LocalTable] = field(default_factory=dict)
    subqueries: list[defined.Subquery] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    clause: str = ""

    def definition(self) -> defined.Definition:
        for table in self.declaration.tables:
            self._add_table(table)
        clauses = {name: self._clause(name, body) for name, body in self.declaration.clauses.items()}
        window = self.tables.get(defined.WINDOW_TABLE)
        bound = defined.Definition(
            self.declaration.name.text.lower(),
            self.parameters,
            result_type(self.declaration, self.parameters),
            tuple(self.tables.values()),
            clauses["initialize"],
            clauses.get("iterate", ()),
            clauses.get("terminate", ()),
            clauses.get("expire"),
            tuple(self.subqueries),
            self.declaration.window,
            self.declaration.algebraic,
            () if window is None else tuple(name for name, _ in window.columns),
        )
        self._check(bound)
        single = [replace(table, single=_always_one_row(table.name, bound)) for table in bound.tables]
        return replace(bound, tables=tuple(single))

    def _check(self, bound: defined.Definition) -> None:
        place = self.declaration.name.place
        if bound.window and bound.terminate:
            raise place.error(
                "a WINDOW AGGREGATE has no TERMINATE", "the result of a row is what ITERATE inserts into RETURN"
            )
        if (
            bound.algebraic
            and not bound.window
            and (len(bound.parameters) != 1 or body_type(bound.result) != bound.parameters[0][1])
        ):
            hint = "its results over parts of a window become its arguments over the whole window"
            raise place.error("an ALGEBRAIC AGGREGATE needs one parameter of the type of its result", hint)

    def _add_table(self, table: syntax.TableSyntax) -> None:
        name = table.name.text.lower()
        if name in self.tables or name == defined.RETURN_TABLE:
            raise table.name.place.error(f'table "{table.name.text}" is declared twice')
        columns = [
            (column.name.text.lower(), self._column_type(table, at, column)) for at, column in enumerate(table.columns)
        ]
        if len({column for column, _ in columns}) < len(columns):
            raise table.name.place.error(f'table "{table.name.text}" has two columns with the same name')
        if name == defined.WINDOW_TABLE and [type_ for _, type_ in columns] != [type_ for _, type_ in self.parameters]:
            hint = "declare one column for each parameter, in the same order and with the same types, under any names"
            raise table.name.place.error("the columns of inwindow differ from the parameters", hint)
        self.tables[name] = defined.LocalTable(name, tuple(columns))

    def _column_type(self, table: syntax.TableSyntax, at: int, column: syntax.FieldSyntax) -> pa.DataType:
        if column.type is not None:
            return _type_of_column(column, self.parameters)
        if table.name.text.lower() != defined.WINDOW_TABLE or at >= len(self.parameters):
            raise column.name.place.error(f'column "{column.name.text}" needs a type')
        return self.parameters[at][1]

    # --- statements

    def _clause(self, name: str, body: tuple[syntax.BodyStatement, ...]) -> tuple[defined.Statement, ...]:
        self.clause = name
        return tuple(self._statement(statement) for statement in body)

    def _statement(self, statement: syntax.BodyStatement) -> defined.Statement:
        match statement:
            case syntax.Branch():
                then = tuple(self._statement(inner) for inner in statement.then)
                otherwise = tuple(self._statement(inner) for inner in statement.otherwise)
                return defined.If(self._condition(statement.condition), then, otherwise, _place(statement.condition))
            case syntax.Loop():
                body = tuple(self._statement(inner) for inner in statement.body)
                return defined.While(self._condition(statement.condition), body, _place(statement.condition))
        tree = _parsed(statement.text)
        match tree:
            case exp.Insert():
                return self._insert(tree, statement)
            case exp.Update():
                return self._update(tree, statement)
            case exp.Delete():
                return self._delete(tree, statement)
        raise statement.text.place.error(f'cannot read the statement "{statement.text.sql}"')

    def _condition(self, text: syntax.BodySql) -> Expression:
        tree = _parsed(text)
        return self._binder().predicate(tree, self._binder().scope())

    def _binder(self) -> QueryBinder:
        in_expire = self.clause == "expire"
        return QueryBinder(self.tables, self.parameters, self.resolve, self.subqueries, self.numbers, in_expire)

    def _insert(self, tree: exp.Insert, statement: syntax.RowChange) -> defined.Statement:
        target = tree.this
        table = target.this if isinstance(target, exp.Schema) else target
        name = name_of_table(table).lower()
        columns = self._target_columns(name, table)
        named = _named_columns(target, columns) if isinstance(target, exp.Schema) else None
        binder, source = self._binder(), tree.expression
        source = source.this if isinstance(source, WholeQuery) else source
        if isinstance(source, exp.Values):
            queries = [
                binder.row(list(row.expressions) if isinstance(row, exp.Tuple) else [row]) for row in source.expressions
            ]
        else:
            queries = [binder.query(source)]
        if statement.where is not None:
            condition = binder.predicate(_parsed(statement.where), binder.scope())
            queries = [replace(query, where=condition) for query in queries]
        placed = tuple(self._with_all_columns(query, columns, named, table) for query in queries)
        return defined.Insert(name, placed, _place(statement.text))

    def _target_columns(self, name: str, table: exp.Expr) -> tuple[tuple[str, pa.DataType], ...]:
        """The columns of the table that INSERT names; for RETURN, the columns of the result."""
        if name == defined.RETURN_TABLE:
            result = result_type(self.declaration, self.parameters)
            return (
                tuple((field_.name, field_.type) for field_ in result)
                if pa.types.is_struct(result)
                else (("", result),)
            )
        if name == defined.WINDOW_TABLE:
            raise error_at(table, "rows cannot be inserted into inwindow", hint="the system inserts each arriving row")
        return self._table(table).columns

    def _table(self, table: exp.Expr) -> defined.LocalTable:
        name = name_of_table(table).lower()
        if name not in self.tables:
            raise error_at(
                table, f'local table "{name_of_table(table)}" not found', hint=f"have: {', '.join(self.tables)}"
            )
        return self.tables[name]

    def _with_all_columns(
        self,
        query: defined.Query,
        columns: tuple[tuple[str, pa.DataType], ...],
        named: list[str] | None,
        table: exp.Expr,
    ) -> defined.Query:
        """The query with a value of the right type for each column, NULL for a column that INSERT does not name."""
        order = [name for name, _ in columns] if named is None else named
        if len(order) != len(query.outputs):
            raise error_at(table, f"INSERT needs {len(order)} values, not {len(query.outputs)}")
        values = dict(zip(order, query.outputs, strict=True))
        return replace(query, outputs=tuple(assigned(values.get(name), type_, table) for name, type_ in columns))

    def _update(self, tree: exp.Update, statement: syntax.RowChange) -> defined.Statement:
        table, binder = self._table(tree.this), self._binder()
        if table.name == defined.WINDOW_TABLE:
            raise error_at(
                tree.this, "rows of inwindow cannot be updated", hint="use DELETE: rows of inwindow can only be deleted"
            )
        scan = binder.scan(table.name)
        scope = binder.scope((binder.entries(scan, tree.this.alias or table.name),))
        types = dict(table.columns)
        values: list[tuple[str, Expression]] = []
        for assignment in tree.expressions:
            name = assignment.this.name.lower()
            if name not in types:
                raise error_at(
                    assignment, f'column "{assignment.this.name}" not found', hint=f"have: {', '.join(types)}"
                )
            value = binder.value(assignment.expression, scope)
            values.append((name, assigned(value, types[name], assignment)))
        return defined.Update(scan, tuple(values), self._where(tree, binder, scope), _place(statement.text))

    def _delete(self, tree: exp.Delete, statement: syntax.RowChange) -> defined.Statement:
        table, binder = self._table(tree.this), self._binder()
        scan = binder.scan(table.name)
        scope = binder.scope((binder.entries(scan, tree.this.alias or table.name),))
        where = self._where(tree, binder, scope)
        older = (
            table.name == defined.WINDOW_TABLE and self.clause != "expire" and self._arriving_row_matches(where, scan)
        )
        return defined.Delete(scan, where, older, _place(statement.text))

    def _where(self, tree: exp.Expr, binder: QueryBinder, scope: Scope) -> Expression | None:
        where = tree.args.get("where")
        return None if where is None else binder.predicate(where.this, scope)

    def _arriving_row_matches(self, where: Expression | None, scan: defined.Scan) -> bool:
        """Whether every arriving row satisfies the condition itself, with any values."""
        if where is None:
            return True
        if not isinstance(where, Call):
            return False
        if where.function in ("and", "or"):
            test = all if where.function == "and" else any
            return test(self._arriving_row_matches(part, scan) for part in where.arguments)
        if where.function not in ("equal", "less_or_equal", "greater_or_equal"):
            return False
        left, right = (self._as_parameter(side, scan) for side in where.arguments)
        return left == right

    def _as_parameter(self, value: Expression, scan: defined.Scan) -> Expression:
        bare = value.arguments[0] if isinstance(value, Call) and value.function == "widen" else value
        prefix = f"r{scan.number}:"
        if isinstance(bare, Column) and bare.name.startswith(prefix):
            names = [name for name, _ in self.tables[defined.WINDOW_TABLE].columns]
            name, type_ = self.parameters[names.index(bare.name.removeprefix(prefix))]
            return Column(f"p:{name}", type_)
        return bare


def assigned(value: Expression | None, type_: pa.DataType, node: exp.Expr) -> Expression:
    """The value, converted as SQL does when it assigns it to a column of a type."""
    if value is None:
        return Literal(None, type_)
    if value.type == type_:
        return value
    numbers = all(pa.types.is_integer(t) or pa.types.is_floating(t) for t in (value.type, type_))
    try:
        if isinstance(value, Literal):
            return coerce(value, type_)
        return cast(value, type_) if numbers else coerce_strictly(value, type_)
    except UserError as error:
        raise error_at(node, error.message, hint=error.hint) from error


def coerce_strictly(value: Expression, type_: pa.DataType) -> Expression:
    """The value converted to a type that can hold every value of its own type. Raises UserError for other types."""
    if pa.types.is_null(value.type) or (pa.types.is_date32(value.type) and pa.types.is_timestamp(type_)):
        return coerce(value, type_)
    raise UserError(f"a value of type {type_name(value.type)} cannot be stored as {type_name(type_)}", hint="use CAST")


def name_of_table(table: exp.Expr) -> str:
    """The name of a local table. Raises SqlError if the node is something else."""
    if not isinstance(table, exp.Table):
        raise error_at(table, "expected the name of a local table")
    return name_of(table)


def _named_columns(target: exp.Schema, columns: tuple[tuple[str, pa.DataType], ...]) -> list[str]:
    """The columns that an INSERT names. Raises SqlError for a name that is not in `columns`."""
    names = [name for name, _ in columns]
    for column in target.expressions:
        if column.name.lower() not in names:
            raise error_at(column, f'column "{column.name}" not found', hint=f"have: {', '.join(names)}")
    return [column.name.lower() for column in target.expressions]


def _place(text: syntax.BodySql) -> defined.StatementLocation:
    return defined.StatementLocation(text.place.line, " ".join(text.sql.split()))


def _parsed(text: syntax.BodySql) -> exp.Expr:
    """The parsed tree of a text; its locations are those in the whole script."""
    blank = "\n" * (text.place.line - 1) + " " * (text.place.column - 1)
    try:
        tree = sqlglot.parse_one(blank + text.sql, read=Dsms)
    except (ParseError, sqlglot.errors.TokenError) as error:
        details = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
        description = str(details.get("description") or "cannot be read").rstrip(".").lower()
        raise SqlError(
            f'{description} in "{" ".join(text.sql.split())}"',
            line=int(details.get("line") or text.place.line),
            column=int(details.get("col") or text.place.column),
        ) from error
    return rewritten(tree.this if isinstance(tree, WholeQuery) else tree)


def _always_one_row(table: str, bound: defined.Definition) -> bool:
    """Whether a table has exactly one row from its first use in INITIALIZE on."""
    if table == defined.WINDOW_TABLE:
        return False
    every = [
        *defined.walk_all(bound.iterate),
        *defined.walk_all(bound.terminate),
        *defined.walk_all(bound.expire or ()),
    ]
    if any(_changes_rows(statement, table) for statement in every):
        return False
    used = [statement for statement in bound.initialize if table in _tables_used_in(statement, bound)]
    changing = [statement for statement in defined.walk_all(bound.initialize) if _changes_rows(statement, table)]
    if not used or changing != used[:1]:
        return False
    insert = used[0]
    if not isinstance(insert, defined.Insert) or len(insert.queries) != 1:
        return False
    (query,) = insert.queries
    reads = [subquery.query for subquery in defined.subqueries_of(defined.query_expressions(query), bound)]
    own = any(scan.table == table for read in reads for scan in read.scans)
    return not query.scans and query.where is None and query.limit is None and query.keys is None and not own


def _changes_rows(statement: defined.Statement, table: str) -> bool:
    if isinstance(statement, defined.Insert):
        return statement.table == table
    return isinstance(statement, defined.Delete) and statement.scan.table == table


def _tables_used_in(statement: defined.Statement, bound: defined.Definition) -> set[str]:
    """The tables that a statement uses, including the statements nested in it."""
    return {name for inner in defined.walk_all((statement,)) for name in defined.tables_of(inner, bound)}
