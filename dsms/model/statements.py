"""Parsed statements, one frozen dataclass for each kind: those that the parser of queries and declarations returns, and
those about rows. The others are in their files in `dsms.statements`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sqlglot import exp

from operators.core.errors import SqlError

Kind = Literal["source", "stream", "table", "view", "query", "aggregate"]

#: The order in which a one-time SELECT with a preference visits the parts of its input.
Direction = Literal["asc", "desc", "weighted"]
#: The output of a continuous query: the changes of its relation, the relation itself, or one of CQL's streams of it.
Output = Literal["streamed", "complete", "istream", "dstream", "rstream"]


@dataclass(frozen=True, slots=True)
class TextLocation:
    """The location of a word in the script: line and column, both from 1."""

    line: int = 1
    column: int = 1

    def error(self, message: str, hint: str = "") -> SqlError:
        """An error that points to this location.

        >>> str(TextLocation(2, 5).error("no such thing"))
        'line 2, column 5: no such thing'
        """
        return SqlError(message, line=self.line, column=self.column, hint=hint)


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier as written, with its location."""

    text: str
    place: TextLocation = TextLocation()


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """A declared column; `type` is SQL text."""

    name: Name
    type: str
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Clause:
    """An option of a statement as words, such as `SLACK 5 SECONDS` → ("slack", ("5", "SECONDS"))."""

    name: str
    words: tuple[str, ...]
    place: TextLocation


class Statement:
    """A parsed statement. Each kind is a frozen dataclass; most have the text of the statement in `sql`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class RegisterSource(Statement):
    """`REGISTER SOURCE name (columns) FROM topic …`."""

    name: Name
    columns: tuple[ColumnDefinition, ...]
    topic: Name
    clauses: tuple[Clause, ...]
    sql: str


@dataclass(frozen=True, slots=True)
class CreateStream(Statement):
    """`CREATE STREAM name OVER source KEY columns | KEY NULL [WITH DELETIONS]`; `keys` is empty for KEY NULL."""

    name: Name
    source: Name
    keys: tuple[Name, ...]
    sql: str
    deletions: bool = False


@dataclass(frozen=True, slots=True)
class DeclareStream(Statement):
    """`CREATE STREAM name (columns) [SOURCE 'topic' | SOURCE function('topic', …)] [ORDERED BY column] clauses`:
    declares a source together with its append-only stream (PIPES, ESL). `function` is the function that SOURCE names.
    With ORDERED BY, the timestamp column is not a column of the stream (`hidden`); with ESL's ORDER BY, it is. `late`
    names the stream of late records.
    """

    name: Name
    columns: tuple[ColumnDefinition, ...]
    topic: Name
    ordered: Name | None
    function: str | None
    clauses: tuple[Clause, ...]
    sql: str
    hidden: bool = False
    late: Name | None = None


@dataclass(frozen=True)
class ParsedExpression:
    """An expression and its text."""

    tree: exp.Expr
    text: str


@dataclass(frozen=True)
class CreateTable(Statement):
    """`CREATE TABLE name (columns, PRIMARY KEY (…), CHECK (…))`; every column of `keys` is NOT NULL. `checks` are pairs
    of a name and a condition."""

    name: Name
    columns: tuple[ColumnDefinition, ...]
    keys: tuple[Name, ...]
    sql: str
    defaults: tuple[tuple[Name, ParsedExpression], ...] = ()
    checks: tuple[tuple[str, ParsedExpression], ...] = ()


@dataclass(frozen=True)
class CreateTableAs(Statement):
    """`CREATE TABLE name [(PRIMARY KEY (…))] AS select`: creates only the table; an INSERT of the rows follows."""

    name: Name
    keys: tuple[Name, ...]
    select: exp.Expr
    select_sql: str
    sql: str


@dataclass(frozen=True)
class Conflict:
    """`ON CONFLICT [(keys)] DO NOTHING`, or with `changes` `DO UPDATE SET column = expression, … [WHERE predicate]`."""

    keys: tuple[Name, ...]
    changes: tuple[tuple[Name, exp.Expr], ...] = ()
    where: exp.Expr | None = None


@dataclass(frozen=True)
class Insert(Statement):
    """`INSERT INTO table [(columns)] VALUES … | SELECT … [ON CONFLICT …]`. Without `columns`, the rows have all
    columns, in order. `rows` is the parsed VALUES or SELECT.
    """

    table: Name
    columns: tuple[Name, ...]
    rows: exp.Expr
    sql: str
    #: What to do with rows whose key already exists; None: the statement fails.
    conflict: Conflict | None = None
    #: The expressions of RETURNING, over the changed rows; (): nothing.
    returning: tuple[exp.Expr, ...] = ()


@dataclass(frozen=True)
class Update(Statement):
    """`UPDATE table [AS alias] SET column = expression, … [FROM items] [WHERE predicate]`."""

    table: Name
    changes: tuple[tuple[Name, exp.Expr], ...]
    where: exp.Expr | None
    sql: str
    alias: str | None = None
    #: The items of FROM.
    sources: tuple[exp.Expr, ...] = ()
    returning: tuple[exp.Expr, ...] = ()


@dataclass(frozen=True)
class Delete(Statement):
    """`DELETE FROM table [AS alias] [USING items] [WHERE predicate]`."""

    table: Name
    where: exp.Expr | None
    sql: str
    alias: str | None = None
    #: The items of USING.
    sources: tuple[exp.Expr, ...] = ()
    returning: tuple[exp.Expr, ...] = ()


@dataclass(frozen=True)
class MergeBranch:
    """`WHEN [NOT] MATCHED [BY SOURCE] [AND condition] THEN …`: an action, and the `rows` to which it applies: pairs of
    a row of the table and a row of the source ("both"), rows of the source without a partner in the table ("source"),
    or rows of the table without a partner in the source ("table").
    """

    rows: Literal["both", "source", "table"]
    condition: exp.Expr | None
    action: Literal["update", "delete", "insert", "nothing"]
    #: The assignments of UPDATE.
    changes: tuple[tuple[Name, exp.Expr], ...] = ()
    #: The columns and values of INSERT; without columns, the values are for all columns, in order.
    columns: tuple[Name, ...] = ()
    values: tuple[exp.Expr, ...] = ()


@dataclass(frozen=True)
class Merge(Statement):
    """`MERGE INTO table [AS alias] USING source ON predicate WHEN …`."""

    table: Name
    source: exp.Expr
    on: exp.Expr
    branches: tuple[MergeBranch, ...]
    sql: str
    alias: str | None = None
    returning: tuple[exp.Expr, ...] = ()


@dataclass(frozen=True)
class LoadFile(Statement):
    """`COPY table FROM 'file' [WITH (FORMAT csv | parquet, DELIMITER ';', HEADER false, NULL 'text')]`."""

    table: Name
    path: str
    options: tuple[Clause, ...]
    sql: str


@dataclass(frozen=True)
class LoadDatabase(Statement):
    """`LOAD TABLE table FROM DATABASE 'url' QUERY 'select'`. A password in the url is a reference to a secret."""

    table: Name
    url: str
    query: str

    @property
    def sql(self) -> str:
        """The statement with its url."""
        return f"LOAD TABLE {self.table.text} FROM DATABASE '{self.url}' QUERY '{self.query}'"


Load = LoadFile | LoadDatabase


@dataclass(frozen=True)
class Replay(Statement):
    """`REPLAY DEAD LETTERS OF source [SET value = expression] [WHERE predicate]`."""

    name: Name
    value: ParsedExpression | None
    where: ParsedExpression | None
    sql: str


@dataclass(frozen=True)
class ContinuousQuery(Statement):
    """`CREATE STREAMED VIEW name AS select`, `CREATE QUERY name AS select STREAMED …`, or `select STREAMED …` alone.

    If `output` is None, CQL's default applies: Istream for an append-only result. If the text has Istream(…), it is
    part of `select` (see `nodes.StreamOf`) and also in `output`.
    """

    kind: Literal["view", "query"]
    name: Name | None
    select: exp.Expr
    clauses: tuple[Clause, ...]
    sql: str
    #: The text of the select alone, without the word STREAMED.
    select_sql: str
    output: Output | None = "streamed"
    #: Whether it was written as CREATE STREAM.
    stream: bool = False
    #: For a continuous INSERT: the id of the table that it fills; its clauses name the topic.
    fills: str | None = None
    #: Which part of its input is kept first when input is shed.
    preference: Preference | None = None

    def with_columns(self, names: Sequence[Name]) -> ContinuousQuery:
        """The query with all of its columns renamed."""
        listed = exp.TableAlias(
            this=exp.to_identifier("renamed", quoted=True),
            columns=[exp.to_identifier(name.text, quoted=True) for name in names],
        )
        listed.meta[ALL_COLUMNS] = names[0].place
        columns = ", ".join(column.sql(dialect="postgres") for column in listed.columns)
        select = exp.Select(expressions=[exp.Star()], from_=exp.From(this=exp.Subquery(this=self.select, alias=listed)))
        text = f'SELECT * FROM ({self.select_sql}) AS "renamed" ({columns})'
        return replace(self, select=select, select_sql=text)


#: The key in the `meta` of an alias whose list must name all columns, with the location of the list.
ALL_COLUMNS = "all columns"
#: Statements that create an object called `name`.
Creation = RegisterSource | CreateStream | DeclareStream | CreateTable | ContinuousQuery


@dataclass(frozen=True, slots=True)
class IfNotExists(Statement):
    """`CREATE kind IF NOT EXISTS name …`: does nothing if an object has that name."""

    statement: Creation
    name: Name
    sql: str


@dataclass(frozen=True)
class ReplaceQuery(Statement):
    """`CREATE OR REPLACE …`: a query that replaces an existing one with its name."""

    name: Name
    query: ContinuousQuery

    @property
    def sql(self) -> str:
        """The text of the query."""
        return self.query.sql


@dataclass(frozen=True, slots=True)
class Estimate:
    """`COUNT(alias.column)`: how often a tuple's value of the column occurs. If `by_amount`, this number times the
    value: `COUNT(alias.column) * alias.column`.
    """

    alias: str | None
    column: str
    by_amount: bool
    place: TextLocation


@dataclass(frozen=True, slots=True)
class Preference:
    """The last clause of a one-time SELECT (promising tuples, figure 3b): `WITH PREFERENCE [ASC | DESC | WEIGHTED]
    estimate, … [FADE FACTOR fade] [WINDOW length] [BUDGET time]`.

    With DESC, tuples whose values occur often come first; with ASC, those whose values are rare; with WEIGHTED, a
    representative part of the tuples. `fade` multiplies the priority once for each coarser granularity, that is, for
    older parts of the summary. The SELECT visits the last `window` instants (None: all), for at most `budget_s` seconds
    (None: no limit).
    """

    direction: Direction
    estimates: tuple[Estimate, ...]
    fade: float = 1.0
    window: int | None = None
    budget_s: float | None = None


@dataclass(frozen=True)
class Select(Statement):
    """A one-time `SELECT` over streams and views."""

    select: exp.Expr
    sql: str
    #: The label of the statement, which names the query if the SELECT turns out to be continuous.
    name: Name | None = None
    #: The clause that says which part of its input it visits first.
    preference: Preference | None = None
