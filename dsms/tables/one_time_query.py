"""The queries of one-time statements, prepared for DuckDB, over relations of one instant."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from dsms.model.catalog import Catalog
from dsms.model.objects import ROW_NUMBER, Table
from dsms.model.position import error_at, position_of
from dsms.model.statements import TextLocation
from dsms.sql.binder.scalars.current_time import at_instant, reads_current_time
from dsms.sql.binder.scalars.known_functions import refuse_unknown_functions, refuse_user_defined_functions
from dsms.sql.binder.streams.clock import CLOCK, is_clock
from dsms.sql.parser import nodes
from dsms.sql.parser.table_names import name_of
from dsms.tables.array_queries import aggregate_array_queries
from dsms.tables.as_of import refuse_instants, take_instant
from dsms.tables.column_names import name_columns
from dsms.tables.select_wire import EngineFunction
from dsms.tables.series import move_series_to_from

_CONTINUOUS = "windows, samples, table functions, row patterns, synchronised relations, Istream and EMIT"
#: Returns the rows of a stream, view or table that a query names.
Relation = Callable[[str], pa.Table]


@dataclass(frozen=True)
class OneTimeQuery:
    """A one-time query without its input: its text, and the names in the catalog of the objects that it reads,
    by their names in the text. `given` are further relations by name, which are not in the catalog; `query` is the
    syntax tree of the text, `as_of` the instant that the text names."""

    sql: str
    objects: dict[str, str]
    given: Mapping[str, pa.Table] = field(default_factory=dict, repr=False)
    query: exp.Expr | None = field(default=None, repr=False, compare=False)
    as_of: int | None = field(default=None, repr=False)

    def at(self, now: dt.datetime) -> OneTimeQuery:
        """The query as it is asked at an instant: `now()` has this value."""
        if self.query is None or not reads_current_time(self.query):
            return self
        query = at_instant(self.query, now)
        return replace(self, sql=query.sql(dialect="duckdb", comments=False), query=query)

    def over(self, relation: Relation) -> OneTimeQueryWithRows:
        """The query with the rows of the objects that it reads; each object is read once."""
        rows = {name: relation(name) for name in dict.fromkeys(self.objects.values())}
        read = {**self.given, **{alias: rows[name] for alias, name in self.objects.items()}}
        return OneTimeQueryWithRows(self.sql, read, self.query)


def as_shown(relation: Relation, catalog: Catalog, written: Table | None = None) -> Relation:
    """The relations as queries see them: without the column that numbers the rows of a table without a key, except for
    the table that is `written`."""

    def shown(name: str) -> pa.Table:
        item, rows = catalog.find(name), relation(name)
        is_bag = isinstance(item, Table) and item.is_bag and item is not written
        return rows.drop_columns([ROW_NUMBER]) if is_bag else rows

    return shown


@dataclass(frozen=True)
class OneTimeQueryWithRows:
    """A one-time query with its input: the relations that it reads, by their names in the text.

    If there is a `query`, its expressions are those of the language, and `with_engine_calls` replaces them by calls of
    `functions`. Otherwise the text is SQL for DuckDB.
    """

    sql: str
    relations: dict[str, pa.Table]
    query: exp.Expr | None = field(default=None, repr=False, compare=False)
    functions: tuple[EngineFunction, ...] = ()


def one_time_query_of(
    query: exp.Expr, catalog: Catalog, given: Mapping[str, pa.Table] | None = None, *, instants: bool = False
) -> OneTimeQuery:
    """A query prepared for DuckDB; it may also read relations that are `given`, and with `instants` earlier ones, by AS
    OF. Raises SqlError for a statement that is
    not a query, for objects that do not exist, and for functions that the language does not have.

    Names of objects are replaced by names that nothing else can have, so that DuckDB cannot confuse an object with a
    common table or with something of its own.

    >>> import sqlglot
    >>> one_time_query_of(sqlglot.parse_one("WITH t AS (SELECT 1 AS a) SELECT a + 1 FROM t"), Catalog())
    OneTimeQuery(sql='WITH t AS (SELECT 1 AS a) SELECT a + 1 AS "?column?" FROM t', objects={})
    """
    resolved = query.copy()
    _check_reads_only(resolved)
    _name_columns_of_values(resolved)
    move_series_to_from(resolved)
    name_columns(resolved)
    aggregate_array_queries(resolved)
    names: dict[str, str] = {}
    found: list[exp.Table] = []
    for table in list(resolved.find_all(exp.Table)):
        if not isinstance(table.this, exp.Func) and table.name in (given or {}):
            continue
        if isinstance(table.this, exp.Func) or not is_common(table):
            found.append(table)
            read = _object_named(table, catalog)
            names.setdefault(read, f"relation {len(names)}")
            _rename(table, names[read])
    if not instants:
        refuse_instants(resolved)
    as_of = take_instant(found)
    refuse_user_defined_functions(resolved, catalog)
    refuse_unknown_functions(resolved)
    text = resolved.sql(dialect="duckdb", comments=False)
    return OneTimeQuery(text, {alias: name for name, alias in names.items()}, given or {}, resolved, as_of)


def names_of(query: exp.Expr, catalog: Catalog) -> list[str]:
    """The streams, views and tables that a query names, each once, as they are spelled in the catalog."""
    return list(one_time_query_of(query, catalog).objects.values())


def _check_reads_only(query: exp.Expr) -> None:
    if not isinstance(query, exp.Query | exp.Values):
        raise error_at(query, f'"{query.key.upper()}" is not a query', hint="a one-time statement is a SELECT")
    if continuous := query.find(nodes.FromWrapper, nodes.RowPattern, nodes.Emit):
        hint = "create a view that has it, and read the view"
        raise error_at(continuous, f"{_CONTINUOUS} are supported in continuous queries only", hint=hint)
    if other := query.find(exp.Into, exp.DML, exp.DDL, exp.Command, exp.Describe, exp.Pragma, exp.Show):
        raise error_at(other, f'"{other.key.upper()}" is not supported in a one-time SELECT')


def _name_columns_of_values(query: exp.Expr) -> None:
    """Names the columns of VALUES column1, column2 …, as in views, unless they have names."""
    for values in query.find_all(exp.Values):
        if isinstance(values.parent, exp.From | exp.Join):
            alias = values.args.get("alias") or exp.TableAlias(this=exp.to_identifier("_values"))
            width, given = len(values.expressions[0].expressions), alias.args.get("columns") or []
            more = [exp.to_identifier(f"column{number}") for number in range(len(given) + 1, width + 1)]
            alias.set("columns", [*given, *more])
            values.set("alias", alias)


def _object_named(table: exp.Table, catalog: Catalog) -> str:
    """The name of the object that a table reference reads, as it is spelled in the catalog."""
    name = _plain_name(table)
    if is_clock(name):
        hint = f"create a view of its points: CREATE STREAMED VIEW Sync AS SELECT Timepoint FROM R({CLOCK}) WHERE …"
        raise error_at(table, f'"{CLOCK}" is the clock, which has every instant', hint=hint)
    return catalog.find(name, TextLocation(*position_of(table))).name


def _plain_name(table: exp.Table) -> str:
    if qualifier := table.args.get("db"):
        raise error_at(qualifier, f'"{table.sql()}" in FROM has a qualifier: write only the name')
    return name_of(table)


def _rename(table: exp.Table, name: str) -> None:
    """Gives a table another name. It keeps its alias; without one, its old name becomes the alias."""
    alias = table.args.get("alias") or exp.TableAlias()
    if not alias.args.get("this"):
        alias.set("this", exp.to_identifier(name_of(table), quoted=True))
    table.set("alias", alias)
    table.set("this", exp.to_identifier(name, quoted=True))


def is_common(table: exp.Table) -> bool:
    """Whether a name denotes a common table: one of a WITH around it, or an earlier one of the same WITH."""
    if table.args.get("db"):
        return False
    name = table.name.lower()
    child: exp.Expr = table
    while (node := child.parent) is not None:
        if any(common.alias.lower() == name for common in _visible(node, child)):
            return True
        child = node
    return False


def _visible(node: exp.Expr, child: exp.Expr) -> list[exp.Expr]:
    """The common tables that a node lets its child see."""
    if isinstance(node, exp.With):
        at = next(index for index, common in enumerate(node.expressions) if common is child)
        return list(node.expressions[: at + 1 if node.recursive else at])
    clause = node.args.get("with_")
    return [] if clause is None or clause is child else list(clause.expressions)
