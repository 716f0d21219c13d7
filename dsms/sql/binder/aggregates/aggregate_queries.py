"""Binds the expressions in the body of an aggregate: values, conditions, and SELECT over local tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from dsms.model.position import error_at
from dsms.sql.binder.scalars.expression_functions import arguments_of, function_name, written_name
from dsms.sql.binder.scalars.expressions import bind_expression
from dsms.sql.binder.scope import Entry, Scope
from dsms.sql.parser.table_names import name_of
from operators.aggregates import AGGREGATES
from operators.core.errors import UserError
from operators.expressions import Call, Column, Expression, Literal, call, cast, columns
from operators.user_aggregates import definition as defined

_BUILT_IN = ("sum", "count", "avg", "min", "max")
_REFUSED = ("distinct", "windows", "qualify", "laterals", "offset", "with_", "sample")
Entries = tuple[Entry, ...]


@dataclass(frozen=True)
class QueryBinder:
    """Binds the expressions of one statement.

    In EXPIRE (`in_expire`), the parameters hold the row that leaves the window, and `oldest()` returns the same row.
    """

    tables: Mapping[str, defined.LocalTable]
    parameters: tuple[tuple[str, pa.DataType], ...]
    resolve: Callable[[str, tuple[pa.DataType, ...]], defined.Definition | None]
    subqueries: list[defined.Subquery]
    numbers: Iterator[int]
    in_expire: bool

    # --- scopes

    def scan(self, table: str) -> defined.Scan:
        """A new scan of a table."""
        return defined.Scan(next(self.numbers), table)

    def entries(self, scan: defined.Scan, alias: str) -> Entries:
        """The columns of a scan under an alias."""
        table = self.tables[scan.table]
        return tuple(Entry(alias, name, Column(f"r{scan.number}:{name}", type_)) for name, type_ in table.columns)

    def scope(self, levels: tuple[Entries, ...] = ()) -> Scope:
        """The scope of the columns of all queries, the innermost first, then of the parameters; an inner name hides an
        outer one."""
        parameters = tuple(Entry(None, name, Column(f"p:{name}", type_)) for name, type_ in self.parameters)
        taken: set[str] = set()
        spelled: set[str] = set()
        entries: list[Entry] = []
        for level in (*levels, parameters):
            entries += [replace(e, qualified=e.name in taken) for e in level if e.spelling not in spelled]
            taken |= {entry.name for entry in level}
            spelled |= {entry.spelling for entry in level}
        scope = Scope.of(tuple(entries) or (Entry(None, "", Column("none", pa.null())),))
        return replace(scope, rewrite=lambda node: self._rewritten(node, levels))

    # --- values

    def value(self, node: exp.Expr, scope: Scope) -> Expression:
        """The value of a node."""
        return bind_expression(node, scope)

    def predicate(self, node: exp.Expr, scope: Scope) -> Expression:
        """A condition. Raises SqlError unless it is BOOLEAN."""
        bound = self.value(node, scope)
        if not pa.types.is_boolean(bound.type):
            raise error_at(node, "a condition must be BOOLEAN")
        return bound

    def _rewritten(self, node: exp.Expr, levels: tuple[Entries, ...]) -> Expression | None:
        """The expression of a node that only bodies support; None for all other nodes."""
        match node:
            case exp.Literal() if not node.is_string and "." in node.name:
                return Literal(float(node.name), pa.float64())
            case exp.Rand():
                return Column("random", pa.float64(), False)
            case exp.CurrentTime():
                return Column("now", pa.int64(), False)
            case exp.Subquery() | exp.Select():
                return self._subquery(node, node.this if isinstance(node, exp.Subquery) else node, levels, exists=False)
            case exp.Exists():
                inner = node.this.this if isinstance(node.this, exp.Subquery) else node.this
                return self._subquery(node, inner, levels, exists=True)
            case exp.In() if node.args.get("query"):
                raise error_at(node, "IN with a subquery is not supported in an aggregate", hint="use EXISTS")
            case exp.Dot() if _is_oldest(node.this):
                return self._oldest(node, node.expression.name.lower())
            case exp.Anonymous() if _is_oldest(node):
                return self._oldest(node, None)
            case exp.Anonymous() if node.name.lower() == "hash":
                return self._hash(node, levels)
        return None

    def _hash(self, node: exp.Expr, levels: tuple[Entries, ...]) -> Expression:
        arguments = [self.value(argument, self.scope(levels)) for argument in node.expressions]
        if len(arguments) not in (1, 2) or any(not pa.types.is_integer(seed.type) for seed in arguments[1:]):
            raise error_at(node, '"hash" takes a value and, optionally, an integer seed')
        return Call("hash", tuple(arguments), pa.int64(), any(argument.nullable for argument in arguments))

    def _oldest(self, node: exp.Expr, column: str | None) -> Expression:
        window = self.tables.get(defined.WINDOW_TABLE)
        names = [name for name, _ in self.parameters if window is None] or [
            name for name, _ in (window.columns if window else ())
        ]
        if window is None and not self.in_expire:
            raise error_at(node, "oldest() needs a window", hint="declare TABLE inwindow(…)")
        if column is None and len(names) != 1:
            raise error_at(node, "oldest() needs a column", hint=", ".join(f"oldest().{name}" for name in names))
        if column is not None and column not in names:
            raise error_at(node, f'column "{column}" not found', hint=f"have: {', '.join(names)}")
        at = 0 if column is None else names.index(column)
        name, type_ = self.parameters[at]
        if self.in_expire:
            return Column(f"p:{name}", type_)
        scan = defined.Scan(next(self.numbers), defined.WINDOW_TABLE, oldest=True)
        return self._subquery_column(
            defined.Query((scan,), (Column(f"r{scan.number}:{names[at]}", type_),)), exists=False
        )

    def _subquery(self, node: exp.Expr, query: exp.Expr, levels: tuple[Entries, ...], *, exists: bool) -> Expression:
        bound = self.query(query, levels)
        if not exists and len(bound.outputs) != 1:
            raise error_at(node, "a subquery that is used as a value must select exactly one column")
        return self._subquery_column(bound, exists=exists)

    def _subquery_column(self, query: defined.Query, *, exists: bool) -> Expression:
        type_ = pa.bool_() if exists else query.outputs[0].type
        subquery = defined.Subquery(f"q{next(self.numbers)}", query, exists, type_)
        self.subqueries.append(subquery)
        return Column(subquery.name, type_, not exists)

    # --- queries

    def row(self, nodes: list[exp.Expr]) -> defined.Query:
        """A row of VALUES."""
        scope = self.scope()
        return defined.Query((), tuple(self.value(node, scope) for node in nodes))

    def query(self, select: exp.Expr, outer: tuple[Entries, ...] = ()) -> defined.Query:
        """A SELECT over local tables. Raises SqlError."""
        if not isinstance(select, exp.Select):
            raise error_at(select, f"{select.key.upper()} is not supported in an aggregate", hint="use SELECT")
        if refused := next((clause for clause in _REFUSED if select.args.get(clause)), None):
            raise error_at(select, f"{refused.strip('_').upper()} is not supported in an aggregate")
        scans, entries, conditions = self._from(select, outer)
        levels = (entries, *outer) if entries else outer
        scope = self.scope(levels)
        if (where := select.args.get("where")) is not None:
            conditions = [*conditions, where.this]
        bound = [self.predicate(condition, scope) for condition in conditions]
        condition = bound[0] if len(bound) == 1 else call("and", *bound) if bound else None
        items = self._items(select, entries)
        return self._with_clauses(select, items, defined.Query(scans, (), condition), scope)

    def _from(
        self, select: exp.Select, outer: tuple[Entries, ...]
    ) -> tuple[tuple[defined.Scan, ...], Entries, list[exp.Expr]]:
        source = select.args.get("from_")
        joins = select.args.get("joins") or []
        if source is None:
            return (), (), []
        scans: list[defined.Scan] = []
        entries: list[Entry] = []
        conditions: list[exp.Expr] = []
        for item in (source, *joins):
            table = item.this
            if not isinstance(table, exp.Table) or item.args.get("side") or item.args.get("using"):
                raise error_at(item, "only local tables, JOIN … ON and WHERE are supported in an aggregate")
            name = name_of(table).lower()
            if name not in self.tables:
                hint = f"have: {', '.join(self.tables)}"
                raise error_at(table, f'local table "{name_of(table)}" not found', hint=hint)
            scans.append(self.scan(name))
            entries += self.entries(scans[-1], table.alias or name)
            conditions += [item.args["on"]] if item.args.get("on") else []
        return tuple(scans), tuple(entries), conditions

    def _items(self, select: exp.Select, entries: Entries) -> list[exp.Expr]:
        items: list[exp.Expr] = []
        for item in select.expressions:
            if isinstance(item, exp.Star):
                items += [exp.column(entry.name, table=entry.alias) for entry in entries]
            else:
                items.append(item)
        return items

    def _with_clauses(
        self, select: exp.Select, items: list[exp.Expr], query: defined.Query, scope: Scope
    ) -> defined.Query:
        """The query with its groups, values, order and limit."""
        group, having = select.args.get("group"), select.args.get("having")
        ordered = list(select.args["order"].expressions) if select.args.get("order") else []
        shown = [*items, *(item.this for item in ordered), *([having.this] if having else [])]
        aggregates = [node for item in shown for node in self._aggregates_in(item)]
        if aggregates or group is not None or having is not None:
            query, scope = self._grouped(list(group.expressions) if group else [], aggregates, query, scope)
        outputs = tuple(self.value(item, scope) for item in items)
        order = tuple(self._order(item, items, outputs, scope) for item in ordered)
        limit = select.args.get("limit")
        bound = replace(
            query,
            outputs=outputs,
            having=None if having is None else self.predicate(having.this, scope),
            order=order,
            limit=None if limit is None else _whole_number(limit.expression),
        )
        self._check_groups(select, bound)
        return bound

    def _order(
        self, item: exp.Expr, items: list[exp.Expr], outputs: tuple[Expression, ...], scope: Scope
    ) -> defined.Order:
        named = [at for at, shown in enumerate(items) if shown.alias and shown.alias == item.this.name]
        value = outputs[named[0]] if named else self.value(item.this, scope)
        descending = bool(item.args.get("desc"))
        nulls_first = item.args.get("nulls_first")
        return defined.Order(value, descending, descending is False if nulls_first is None else not nulls_first)

    def _aggregates_in(self, node: exp.Expr) -> Iterator[exp.Expr]:
        for part in node.walk(prune=lambda inner: isinstance(inner, exp.Query) or self._is_aggregate(inner)):
            if self._is_aggregate(part):
                yield part

    def _is_aggregate(self, node: exp.Expr) -> bool:
        if isinstance(node, exp.Query) or not isinstance(node, exp.Func):
            return False
        if not isinstance(node, exp.Anonymous | exp.AggFunc | exp.List):
            return False
        return function_name(node) in _BUILT_IN or self._is_user_defined(written_name(node))

    def _is_user_defined(self, name: str) -> bool:
        try:
            return self.resolve(name, ()) is not None
        except UserError:
            return True

    def _grouped(
        self, keys: list[exp.Expr], aggregates: list[exp.Expr], query: defined.Query, scope: Scope
    ) -> tuple[defined.Query, Scope]:
        known: dict[int, Expression] = {}
        folds = []
        for node in aggregates:
            fold = self._fold(node, scope)
            folds.append(fold)
            known[id(node)] = Column(fold.name, fold.type)
        bound = [(f"g{next(self.numbers)}", self.value(key, scope)) for key in keys]
        by_value = {value: Column(name, value.type) for name, value in bound}
        inner = scope.rewrite
        assert inner is not None

        def rewrite(node: exp.Expr) -> Expression | None:
            try:
                value = bind_expression(node, scope) if isinstance(node, exp.Column | exp.Binary | exp.Func) else None
            except UserError:
                value = None
            return by_value[value] if value in by_value else inner(node)

        grouped = replace(query, keys=tuple(bound), folds=tuple(folds))
        return grouped, replace(scope, computed=known, rewrite=rewrite)

    def _fold(self, node: exp.Expr, scope: Scope) -> defined.Fold:
        name = f"g{next(self.numbers)}"
        nodes = [argument for argument in arguments_of(node) if not isinstance(argument, exp.Star)]
        arguments = [self.value(argument, scope) for argument in nodes]
        called = function_name(node)
        types = tuple(argument.type for argument in arguments)
        if (definition := self.resolve(written_name(node), types)) is not None:
            casts = tuple(cast(a, t) for a, (_, t) in zip(arguments, definition.parameters, strict=True))
            return defined.Fold(name, definition, casts, definition.result)
        if any(isinstance(argument, exp.Distinct) for argument in nodes):
            raise error_at(node, "DISTINCT is not supported in an aggregate")
        type_ = AGGREGATES[called].result(types)
        if pa.types.is_decimal(type_):  # the built-in sum of BIGINT has 38 digits
            type_ = pa.int64()
        return defined.Fold(name, called, tuple(arguments), type_)  # type: ignore[arg-type]

    def _check_groups(self, select: exp.Select, query: defined.Query) -> None:
        if query.keys is None:
            return
        own = tuple(f"r{scan.number}:" for scan in query.scans)
        shown = [*query.outputs, *(item.value for item in query.order), *([query.having] if query.having else [])]
        for value in shown:
            for name in sorted(columns(value)):
                if name.startswith(own):
                    column = name.partition(":")[2]
                    raise error_at(select, f'column "{column}" must be in GROUP BY or in an aggregate')


def _is_oldest(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() == "oldest"


def _whole_number(node: exp.Expr) -> int:
    if not isinstance(node, exp.Literal) or node.is_string or not node.name.isdecimal():
        raise error_at(node, "LIMIT must be a whole number")
    return int(node.name)
