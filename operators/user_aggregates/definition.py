"""The typed definition of a user-defined aggregate: frozen records, which are part of the plan.

The name of a column in an expression says where its value comes from:

=============  ==========================================================
`p:next`       the parameter `next`: of the row that arrives or, in EXPIRE, of the row that leaves
`r3:cnt`       the column `cnt` of the row of scan 3
`q5`           subquery 5
`g7`           aggregate 7 over the rows of a query
`now`          the instant of the row
`random`       a number in [0, 1) that depends only on the record
=============  ==========================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from operators.core.stored_names import ADDED_LATER
from operators.expressions.tree import Expression, columns
from operators.python import PythonClass

#: The table of the rows in the window, and the table into which results are inserted.
WINDOW_TABLE, RETURN_TABLE = "inwindow", "return"
Clause = Literal["initialize", "iterate", "terminate", "expire"]


@dataclass(frozen=True, slots=True)
class LocalTable:
    """A local table, of which each group has its own. `single`: it has exactly one row from the end of INITIALIZE
    on."""

    name: str
    columns: tuple[tuple[str, pa.DataType], ...]
    single: bool = False


@dataclass(frozen=True, slots=True)
class Scan:
    """Reads the rows of a local table, one after the other. `oldest`: only the oldest row in the window."""

    number: int
    table: str
    oldest: bool = False


@dataclass(frozen=True, slots=True)
class Fold:
    """An aggregate over the rows of a query: one of five built-in ones, or a base definition."""

    name: str
    function: Literal["sum", "count", "avg", "min", "max"] | Definition
    arguments: tuple[Expression, ...]
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Order:
    """A value to sort by."""

    value: Expression
    descending: bool = False
    nulls_last: bool = True


@dataclass(frozen=True, slots=True)
class Query:
    """Returns a row of values for each combination of rows of the scans that satisfies `where`, or for each group."""

    scans: tuple[Scan, ...]
    outputs: tuple[Expression, ...]
    where: Expression | None = None
    keys: tuple[tuple[str, Expression], ...] | None = None
    folds: tuple[Fold, ...] = ()
    having: Expression | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Subquery:
    """`q5`: the first value of the first row of a query (NULL without rows), or whether it has rows."""

    name: str
    query: Query
    exists: bool
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class StatementLocation:
    """The location of a statement in the text of the definition."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Insert:
    """Inserts the rows of the queries, one query after the other."""

    table: str
    queries: tuple[Query, ...]
    place: StatementLocation = field(compare=False)


@dataclass(frozen=True, slots=True)
class Update:
    """Sets new values, computed from the old ones, in the rows that satisfy `where`."""

    scan: Scan
    values: tuple[tuple[str, Expression], ...]
    where: Expression | None
    place: StatementLocation = field(compare=False)


@dataclass(frozen=True, slots=True)
class Delete:
    """Deletes the rows that satisfy `where`; with `older`, never the row that has just arrived."""

    scan: Scan
    where: Expression | None
    older: bool
    place: StatementLocation = field(compare=False)


@dataclass(frozen=True, slots=True)
class If:
    """`IF condition { … } ELSE { … }`."""

    condition: Expression
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]
    place: StatementLocation = field(compare=False)


@dataclass(frozen=True, slots=True)
class While:
    """`WHILE condition { … }`."""

    condition: Expression
    body: tuple[Statement, ...]
    place: StatementLocation = field(compare=False)


Statement = Insert | Update | Delete | If | While


@dataclass(frozen=True, slots=True)
class Definition:
    """A user-defined aggregate for arguments of certain types. A clause that was not written is empty.

    `inwindow` has the columns of the window's rows, if the definition declares that table. An aggregate in Python has a
    class instead of clauses, and its one table holds the state of an instance.
    """

    name: str
    parameters: tuple[tuple[str, pa.DataType], ...]
    result: pa.DataType
    tables: tuple[LocalTable, ...]
    initialize: tuple[Statement, ...] = ()
    iterate: tuple[Statement, ...] = ()
    terminate: tuple[Statement, ...] = ()
    expire: tuple[Statement, ...] | None = None
    subqueries: tuple[Subquery, ...] = ()
    window: bool = False
    algebraic: bool = False
    inwindow: tuple[str, ...] = ()
    python: PythonClass | None = field(default=None, metadata={ADDED_LATER: True})

    @property
    def fields(self) -> list[str]:
        """The names of the columns of the result; none if it is a single value."""
        return [field.name for field in self.result] if isinstance(self.result, pa.StructType) else []

    @property
    def blocking(self) -> bool:
        """Whether the aggregate returns values only at the end of its input."""
        return bool(self.terminate) if self.python is None else self.python.ends

    @property
    def reads_window(self) -> bool:
        """Whether statements read or delete rows of the window other than the one that leaves."""
        plain = [*walk_all((*self.initialize, *self.iterate, *self.terminate)), *walk_all(self.expire or ())]
        return any(WINDOW_TABLE in tables_of(statement, self) for statement in plain)

    @property
    def inverse(self) -> bool:
        """Whether EXPIRE can undo any row, not only the oldest one, so that retractions can be applied."""
        if self.python is not None:
            return self.python.inverse
        return self.expire is not None and not self.reads_window

    @property
    def ends_only(self) -> bool:
        """Whether only TERMINATE returns values, and TERMINATE does not change the local tables."""
        if self.python is not None:
            return self.python.ends
        before = walk_all((*self.initialize, *self.iterate, *(self.expire or ())))
        at_end = walk_all(self.terminate)
        return not any(map(returns, before)) and all(
            returns(statement) or isinstance(statement, If | While) for statement in at_end
        )

    @property
    def returns_many(self) -> bool:
        """Whether the aggregate may return more or fewer than one row at the end."""
        if self.python is not None:
            return not self.python.ends
        if any(returns(statement) for statement in walk_all((*self.initialize, *self.iterate, *(self.expire or ())))):
            return True
        made = [statement for statement in walk_all(self.terminate) if returns(statement)]
        top = [statement for statement in self.terminate if returns(statement)]
        if len(made) != 1 or len(top) != 1:
            return True
        (insert,) = top
        assert isinstance(insert, Insert)
        return len(insert.queries) != 1 or not self._one_row(insert.queries[0])

    def _one_row(self, query: Query) -> bool:
        if query.limit is not None or query.having is not None:
            return False
        if query.keys == ():
            return True
        single = {table.name for table in self.tables if table.single}
        return query.keys is None and query.where is None and all(scan.table in single for scan in query.scans)

    def table(self, name: str) -> LocalTable:
        """The local table with a name."""
        return next(table for table in self.tables if table.name == name)

    @property
    def stored(self) -> tuple[LocalTable, ...]:
        """The tables that may have any number of rows, except the window."""
        return tuple(table for table in self.tables if not table.single and table.name != WINDOW_TABLE)

    @property
    def variables(self) -> tuple[tuple[str, pa.DataType], ...]:
        """The columns of tables with a single row."""
        return tuple(
            (f"{table.name}_{name}", type_) for table in self.tables if table.single for name, type_ in table.columns
        )


def python_definition(made: PythonClass) -> Definition:
    """The definition of an aggregate that is a Python class."""
    state = LocalTable("state", (("attributes", pa.large_binary()),), single=True)
    return Definition(made.name, made.parameters, made.result, (state,), python=made)


def walk_all(statements: tuple[Statement, ...]) -> Iterator[Statement]:
    """The statements and those nested in them."""
    for statement in statements:
        yield statement
        match statement:
            case If():
                yield from walk_all((*statement.then, *statement.otherwise))
            case While():
                yield from walk_all(statement.body)


def returns(statement: Statement) -> bool:
    """Whether a statement inserts into RETURN."""
    return isinstance(statement, Insert) and statement.table == RETURN_TABLE


def expressions_of(statement: Statement) -> Iterator[Expression]:
    """The expressions of a statement itself, not of statements nested in it."""
    match statement:
        case Insert():
            for query in statement.queries:
                yield from query_expressions(query)
        case Update():
            yield from (value for _, value in statement.values)
            yield from () if statement.where is None else (statement.where,)
        case Delete():
            yield from () if statement.where is None else (statement.where,)
        case If() | While():
            yield statement.condition


def query_expressions(query: Query) -> Iterator[Expression]:
    """All expressions of a query."""
    yield from query.outputs
    yield from (value for _, value in query.keys or ())
    for fold in query.folds:
        yield from fold.arguments
    yield from (item.value for item in query.order)
    yield from (part for part in (query.where, query.having) if part is not None)


def subqueries_of(expressions: Iterator[Expression], definition: Definition) -> Iterator[Subquery]:
    """The subqueries in expressions, and those nested in them."""
    known = {subquery.name: subquery for subquery in definition.subqueries}
    for expression in expressions:
        for name in columns(expression):
            if name in known:
                yield known[name]
                yield from subqueries_of(query_expressions(known[name].query), definition)


def tables_of(statement: Statement, definition: Definition) -> set[str]:
    """The tables that a statement reads or changes. A statement that uses the row that leaves does not read the window,
    because EXPIRE gets this row as its parameters."""
    queries = list(statement.queries) if isinstance(statement, Insert) else []
    queries += [subquery.query for subquery in subqueries_of(expressions_of(statement), definition)]
    scans = [scan for query in queries for scan in query.scans]
    if isinstance(statement, Update | Delete):
        scans.append(statement.scan)
    inserted = {statement.table} - {RETURN_TABLE} if isinstance(statement, Insert) else set()
    return inserted | {scan.table for scan in scans}
