"""Binds WITH RECURSIVE: turns common tables that read themselves or each other into rules over relations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import product

import pyarrow as pa
from sqlglot import exp

from dsms.model import logical
from dsms.model.position import error_at, not_supported
from dsms.model.properties import walk
from dsms.model.schema import schema
from dsms.planner.optimizer.optimize import optimize
from dsms.sql.binder.from_clause.common_tables import named_in
from dsms.sql.binder.relation import CommonTable, Context, Relation, aliased, bind_query, relation_of
from operators.core.errors import SqlError, UserError
from operators.expressions import Column, Expression, call, coerce, column, type_name
from operators.recursion.term import Given, Paired, Projected, Recurred, Rule, Selected, Term

#: Operators that cannot read a recursive relation because they are not monotonic: more rows of it could mean fewer or
#: other rows of the result.
_CONSTRUCTS = {
    logical.GroupBy: "an aggregate",
    logical.TopK: "ORDER BY … LIMIT",
    logical.WindowFunctions: "OVER",
    logical.SetOperation: "EXCEPT or INTERSECT",
    logical.Join: "an outer join",
    logical.SemiJoin: "NOT IN or NOT EXISTS",
}
#: Clauses of a UNION that a recursive query cannot have.
_REFUSED_CLAUSES = {"with_": "WITH", "order": "ORDER BY", "limit": "LIMIT", "offset": "OFFSET", "by_name": "BY NAME"}
#: The most recursive queries that may be nested, and the most terms to which one join may expand.
_MAX_NESTED, _MAX_TERMS = 2, 64
_HINT = "use it in the query after WITH, over the recursive table"
#: The most rounds in which types are widened, as from INTEGER to DOUBLE; then they must be stable.
_MAX_ROUNDS = 3
_PARTNER = "__partner{}"


def recursion(group: Sequence[exp.CTE], context: Context, name: str) -> logical.Recursion:
    """The relation `name` of a group of common tables that are defined together. Raises SqlError.

    Each table is a UNION of queries. The type of each of its columns is the one to which the types of this column in
    all its queries are widened.
    """
    if context.recursions >= _MAX_NESTED:
        raise not_supported(group[0], f"WITH RECURSIVE nested in {_MAX_NESTED} others")
    inside = replace(context, recursions=context.recursions + 1)
    tables = [_Table(number, cte, inside) for number, cte in enumerate(group)]
    relations = _widened_columns(tables, _initial_columns(tables))
    rules = _Rules(tuple(relations[table.name] for table in tables), inside.recursions)
    for table in tables:
        for tree in table.queries:
            rules.add(table, tree, table.bound(tree, tables, relations))
    output = next(table.number for table in tables if table.name == name.lower())
    return logical.Recursion(tuple(rules.inputs), rules.relations, tuple(rules.rules), output, group[0].alias)


@dataclass(frozen=True)
class _Table:
    """A recursive table, by its number in the group."""

    number: int
    cte: exp.CTE
    context: Context

    @property
    def name(self) -> str:
        return self.cte.alias.lower()

    @property
    def queries(self) -> list[exp.Expr]:
        """The queries of its UNION, in order."""
        return list(_union_branches(self.cte.this))

    def bound(self, query: exp.Expr, tables: Sequence[_Table], known: Mapping[str, pa.Schema]) -> Relation:
        """One of its queries, bound with the columns of those tables of the group that are known so far."""
        recurrences = {table.name: table.recurrence(known[table.name]) for table in tables if table.name in known}
        return bind_query(query, replace(self.context, ctes={**self.context.ctes, **recurrences}))

    def recurrence(self, columns: pa.Schema) -> CommonTable:
        """The table as the queries of the group read it."""
        return CommonTable(self.cte, self.context, relation=self._recurred(columns))

    def _recurred(self, columns: pa.Schema) -> Relation:
        return relation_of(logical.Recurrence(self.number, self.context.recursions, columns), columns)

    def columns(self, relations: Sequence[Relation]) -> pa.Schema:
        """The columns of the table, given some of its queries. All are nullable: recursion may add a NULL."""
        named = aliased(relations[0], None, list(self.cte.alias_column_names)).visible
        names = [entry.name for entry in named]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise error_at(
                self.cte, f'two columns of "{self.cte.alias}" are named "{twice}"', hint="rename one with AS"
            )
        rows = [[entry.column.type for entry in relation.visible] for relation in relations]
        if any(len(row) != len(names) for row in rows):
            counts = ", ".join(str(len(row)) for row in rows)
            raise error_at(self.cte, f'the queries of "{self.cte.alias}" differ in the number of columns: {counts}')
        pairs = zip(names, zip(*rows, strict=True), strict=True)
        return pa.schema([pa.field(name, self._common(name, types)) for name, types in pairs])

    def _common(self, name: str, types: Sequence[pa.DataType]) -> pa.DataType:
        try:
            return reduce(_widened, types)
        except UserError as error:
            shown = " and ".join(map(type_name, types))
            message = f'column "{name}" of "{self.cte.alias}" has no common type: {shown}'
            raise error_at(self.cte, message, hint="CAST one of them") from error


def _union_branches(query: exp.Expr) -> Iterator[exp.Expr]:
    """The queries of a UNION. Raises SqlError for UNION ALL, which would have to count rows, and for clauses such as
    LIMIT, which would cut rows off."""
    is_parenthesised = isinstance(query, exp.Subquery) and isinstance(query.this, exp.Union | exp.Subquery)
    if not is_parenthesised and not isinstance(query, exp.Union):
        yield query
        return
    for part, construct in _REFUSED_CLAUSES.items():
        if query.args.get(part):
            raise not_supported(query, f"{construct} in a recursive query")
    if not isinstance(query, exp.Union):
        yield from _union_branches(query.this)
        return
    if query.args.get("distinct") is False:
        hint = "write UNION: a recursive relation is a set, so that the recursion ends even if rows derive each other"
        raise not_supported(query.right, "UNION ALL in WITH RECURSIVE", hint)
    yield from _union_branches(query.left)
    yield from _union_branches(query.right)


def _widened_columns(tables: Sequence[_Table], known: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
    """The columns of all tables, widened until the columns of all their queries fit; at most `_MAX_ROUNDS` times."""
    for _ in range(_MAX_ROUNDS):
        wider = {
            table.name: table.columns([table.bound(query, tables, known) for query in table.queries])
            for table in tables
        }
        if wider == known:
            break
        known = wider
    return known


def _initial_columns(tables: Sequence[_Table]) -> dict[str, pa.Schema]:
    """The columns of all tables, by name of the table, from their queries that read no table of the group. A table
    without such a query takes its types from its first query that reads only tables whose columns are already known.
    Raises SqlError if it has no such query either."""
    known: dict[str, pa.Schema] = {}
    names = [table.name for table in tables]
    while len(known) < len(tables):
        before = len(known)
        for table in tables:
            if table.name not in known and (readable := _readable(table, names, known)):
                known[table.name] = table.columns([table.bound(query, tables, known) for query in readable])
        if len(known) == before:
            cte = next(table.cte for table in tables if table.name not in known)
            hint = "begin with a query that does not read it, then UNION the recursive queries"
            raise error_at(cte, f'"{cte.alias}" has no query that does not read itself', hint=hint)
    return known


def _readable(table: _Table, names: Sequence[str], known: Mapping[str, pa.Schema]) -> list[exp.Expr]:
    """The queries of a table that read no table of the group; without any, its first query that reads only tables whose
    columns are known."""
    first = [query for query in table.queries if not named_in(query, names)]
    return first or [query for query in table.queries if named_in(query, names) <= known.keys()][:1]


def _widened(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    return one if one == other else call("coalesce", Column("", one), Column("", other)).type


def _distinct_keys(node: logical.Join | logical.SemiJoin) -> tuple[list[tuple[str, str]], list[Expression]]:
    """Pairs of key columns of a join in which no column occurs twice, and the other pairs as conditions."""
    keys: list[tuple[str, str]] = []
    compared: list[Expression] = []
    columns = schema(node.left)
    equal = "not_distinct" if node.nulls_equal else "equal"
    for left, right in node.on:
        if any(left == one or right == two for one, two in keys):
            own = column(columns.field(left))
            compared.append(call(equal, own, Column(right, own.type)))
        else:
            keys.append((left, right))
    return keys, compared


@dataclass
class _Rules:
    """The rules of a group, and the relations from outside that they read."""

    relations: tuple[pa.Schema, ...]
    depth: int
    rules: list[Rule] = field(default_factory=list)
    inputs: list[logical.Node] = field(default_factory=list)

    def add(self, table: _Table, tree: exp.Expr, query: Relation) -> None:
        """Adds the rules of a query of a table. Raises SqlError."""
        try:
            plan = optimize(logical.Project(query.node, tuple(self._outputs(table, query))))
            self.rules += [Rule(table.number, term) for term in self._terms(plan)]
        except SqlError:
            raise
        except UserError as error:
            raise error_at(tree, error.message, hint=error.hint) from error

    def _outputs(self, table: _Table, query: Relation) -> Iterator[tuple[str, Expression]]:
        wanted = self.relations[table.number]
        for entry, to in zip(query.visible, wanted, strict=True):
            if _widened(entry.column.type, to.type) != to.type:
                types = f"{type_name(to.type)}, but {type_name(entry.column.type)} in this query"
                raise UserError(f'column "{to.name}" of "{table.cte.alias}" is {types}', hint="CAST one of them")
            yield to.name, coerce(entry.column, to.type)

    def _terms(self, node: logical.Node) -> list[Term]:
        """The terms whose union is equivalent to a plan. Raises UserError for operators that are not monotonic."""
        read = [below for below in walk(node) if isinstance(below, logical.Recurrence)]
        if not read:
            return [Given(self._input(node))]
        if any(recurrence.depth != self.depth for recurrence in read):
            raise UserError(
                "a nested recursive query cannot read the recursive tables around it",
                hint="define all of them in one WITH RECURSIVE",
            )
        match node:
            case logical.Recurrence():
                return [Recurred(node.number)]
            case logical.Filter():
                return [Selected(term, node.predicate) for term in self._terms(node.input)]
            case logical.Project():
                return [Projected(term, node.outputs) for term in self._terms(node.input)]
            case logical.Distinct():
                return self._terms(node.input)
            case logical.Union():
                return [term for branch in node.inputs for term in self._branch(branch, schema(node))]
            case logical.Join(outer="none"):
                return self._pairs(node, self._terms(node.right))
            case logical.SemiJoin(anti=False):
                kept = tuple((entry.name, column(entry)) for entry in schema(node))
                return [Projected(pair, kept) for pair in self._partners(node)]
        construct = _CONSTRUCTS.get(type(node), type(node).__name__)
        raise UserError(f"a recursive relation is not supported under {construct}", hint=_HINT)

    def _pairs(self, node: logical.Join | logical.SemiJoin, right: list[Term]) -> list[Term]:
        keys, compared = _distinct_keys(node)
        own, other = tuple(key for key, _ in keys), tuple(key for _, key in keys)
        left = self._terms(node.left)
        if len(left) * len(right) > _MAX_TERMS:
            raise UserError(
                f"the UNION ALL inputs of a join in a recursive query have more than {_MAX_TERMS} combinations"
            )
        sides = product(left, right)
        pairs: list[Term] = [Paired(one, two, own, other, node.nulls_equal) for one, two in sides]
        conditions = compared if node.residual is None else [*compared, node.residual]
        return [reduce(Selected, conditions, pair) for pair in pairs]

    def _partners(self, node: logical.SemiJoin) -> list[Term]:
        """The pairs of a semi-join. Without a residual predicate the sides may share names, so the key columns of the
        right side are renamed."""
        if node.residual is not None:
            return self._pairs(node, self._terms(node.right))
        fields = schema(node.right)
        renamed = {key: _PARTNER.format(at) for at, key in enumerate(dict.fromkeys(key for _, key in node.on))}
        outputs = tuple((new, column(fields.field(old))) for old, new in renamed.items())
        on = tuple((left, renamed[right]) for left, right in node.on)
        return self._pairs(replace(node, on=on), [Projected(term, outputs) for term in self._terms(node.right)])

    def _branch(self, branch: logical.Node, columns: pa.Schema) -> list[Term]:
        pairs = zip(columns.names, schema(branch), strict=True)
        outputs = tuple((name, column(old)) for name, old in pairs)
        return [Projected(term, outputs) for term in self._terms(branch)]

    def _input(self, node: logical.Node) -> int:
        """The number of an input; adds it unless an equal one is already there."""
        if node not in self.inputs:
            self.inputs.append(node)
        return self.inputs.index(node)
