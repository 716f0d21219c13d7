"""Finds the scalar expressions of a one-time query that the engine of views computes. DuckDB computes the rest.

Such an *engine expression* is as large as possible. It ends at its *leaves*, the parts that DuckDB has to compute:
columns, aggregates, functions with OVER, subqueries. Leaves may contain further engine expressions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlglot import exp

from dsms.model.types import parse_type
from dsms.sql.binder.aggregates.aggregate_calls import aggregate_function
from dsms.tables.one_time_query import is_common
from operators.core.errors import SqlError

#: Keys of the metadata of syntax nodes: the number of a leaf within its engine expression; at a node that replaces an
#: engine expression, the number of the expression.
LEAF, ENGINE_EXPRESSION = "leaf", "engine expression"
#: The clauses whose expression is a condition that selects rows.
_CONDITIONS = (exp.Where, exp.Having, exp.Qualify)
#: The nodes around the call of an aggregate or of a function with OVER.
_CALLS = (exp.Window, exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)
_ROWS = (exp.Explode, exp.Unnest, exp.GenerateSeries)
_LEAVES = (exp.Column, exp.Query, exp.Exists, exp.Grouping, exp.Star, *_ROWS, *_CALLS)
#: Nodes that are not expressions to compute and contain none.
_ATOMS = (exp.Identifier, exp.TableAlias, exp.DataType, exp.WindowSpec, exp.TableSample, exp.Var)
#: Constants, which DuckDB reads like the language.
_PLAIN = (exp.Literal, exp.Boolean, exp.Null, exp.Interval)
_LARGEST_INTEGER = 2**63 - 1


@dataclass(frozen=True)
class EngineExpression:
    """An expression with marked leaves, whose names are `names`. A node replaces it in the query. The operands of that
    node are the leaves, in which inner engine expressions are replaced too. A `condition` selects rows; `joined_items`
    names the items of FROM that are joined before it applies.
    """

    expression: exp.Expr
    names: tuple[str, ...]
    condition: bool = False
    joined_items: tuple[str, ...] = ()


@dataclass
class EngineExpressions:
    """The engine expressions of a query, by their numbers, and the query in which nodes replace them."""

    query: exp.Expr
    found: list[EngineExpression] = field(default_factory=list)

    @property
    def replacements(self) -> list[exp.Expr]:
        """The nodes that replace engine expressions, inner ones first."""
        return [node for node in self.query.walk(bfs=False) if ENGINE_EXPRESSION in node.meta][::-1]


def _restore_columns_of_date_diff(query: exp.Expr) -> None:
    """Makes the last argument of DATE_DIFF('day', a, b) a column again: the generic parser takes it for the unit."""
    for node in query.find_all(exp.DateDiff):
        unit = node.args.get("unit")
        if isinstance(node.this, exp.Literal) and isinstance(unit, exp.Var):
            node.set("unit", exp.column(unit.name.lower()))


def engine_expressions_of(query: exp.Expr) -> EngineExpressions:
    """The query with a node `ENGINE(leaves)` in place of each engine expression.

    >>> import sqlglot
    >>> split = engine_expressions_of(sqlglot.parse_one("SELECT a, SUM(b + 1) * 2 FROM t WHERE c > 3 GROUP BY a"))
    >>> split.query.sql()
    'SELECT a, ENGINE(SUM(ENGINE(b))) AS "(sum(b + 1) * 2)" FROM t WHERE ENGINE(c) GROUP BY a'
    >>> [each.expression.sql() for each in split.found]
    ['SUM(b + 1) * 2', 'b + 1', 'c > 3']
    """
    split = EngineExpressions(exp.Paren(this=query.copy()))
    _restore_columns_of_date_diff(split.query)
    _descend(split.query, frozenset(), split.found)
    split.query = split.query.this.pop()
    return split


def _descend(node: exp.Expr, keys: frozenset[str], found: list[EngineExpression]) -> None:
    """Replaces the engine expressions within a node. `keys` are the GROUP BY expressions of the query around it."""
    own = _grouped_expressions(node) if isinstance(node, exp.Select) else keys
    for child in list(node.iter_expressions()):
        given = _usable_keys(node, child, own)
        if isinstance(child, _ATOMS):
            continue
        if isinstance(child, _CONDITIONS) and not isinstance(node, exp.Filter):
            _replace(child.this, given, found, _joined_items(node) if isinstance(child, exp.Where) else ())
        elif isinstance(node, exp.Join) and child is node.args.get("on"):
            _replace(child, given, found, _joined_items(node.parent, node))
        elif _is_scalar(child, node) and not (isinstance(node, _CALLS) and child is node.this):
            _replace(child, given, found)
        else:
            _descend(child, given, found)


def _usable_keys(node: exp.Expr, child: exp.Expr, keys: frozenset[str]) -> frozenset[str]:
    """The keys that a child can use: none in the arguments of aggregates, in FROM and in WHERE, which are computed
    before the rows are grouped."""
    grouped = not isinstance(child, exp.From | exp.Join | exp.Where | exp.Group | exp.Lateral | exp.With)
    if isinstance(node, exp.Select):
        return keys if grouped else frozenset()
    within = aggregate_function(node) is not None and not isinstance(node.parent, exp.Window)
    return frozenset() if isinstance(child, exp.Query) or within else keys


def _grouped_expressions(select: exp.Select) -> frozenset[str]:
    group = select.args.get("group")
    if group is None:
        return frozenset()
    listed = [key.unnest() for key in group.expressions]
    return frozenset(normal(key) for key in listed if not isinstance(key, (*_PLAIN, exp.Column)))


def normal(node: exp.Expr) -> str:
    """The text of an expression, which does not depend on case and quotes of its names."""
    copy = node.unnest().copy()
    for name in copy.find_all(exp.Identifier):
        name.set("this", name.name.lower())
        name.set("quoted", True)
    return copy.sql(comments=False)


def _is_scalar(node: exp.Expr, parent: exp.Expr) -> bool:
    if isinstance(node, exp.Tuple):
        return isinstance(parent, exp.Select | exp.Alias)
    return isinstance(node, exp.Condition | exp.JSONValue) and not isinstance(node, exp.UDTF)


def _joined_items(select: exp.Expr | None, last: exp.Join | None = None) -> tuple[str, ...]:
    """The names of the items of FROM, up to a join, for whose rows DuckDB may evaluate a condition before the join."""
    if not isinstance(select, exp.Select) or (first := select.args.get("from_")) is None:
        return ()
    joins = select.args.get("joins") or []
    items = [first.this, *(join.this for join in joins[: joins.index(last) + 1 if last else None] if _kept(join))]
    if len(items) == 1 and isinstance(first.this, exp.Table) and not is_common(first.this):
        return ()
    return tuple(dict.fromkeys(item.alias_or_name for item in items if item.alias_or_name))


def _kept(join: exp.Join) -> bool:
    """Whether the joined item can be named after the join."""
    return str(join.kind).upper() not in ("SEMI", "ANTI")


def _replace(
    node: exp.Expr, keys: frozenset[str], found: list[EngineExpression], joined_items: tuple[str, ...] | None = None
) -> None:
    if not _is_computed(node, keys):
        for leaf in _leaves(node, keys):
            _descend(leaf, keys, found)
        return
    number, names = len(found), dict[str, int]()
    found.append(EngineExpression(node, ()))
    leaves: list[exp.Expr] = []
    for leaf in list(_leaves(node, keys)):
        text = normal(leaf)
        if text not in names:
            names[text] = len(leaves)
            leaves.append(leaf.copy())
        leaf.meta[LEAF] = names[text]
    mark = exp.Anonymous(this="ENGINE", expressions=leaves)
    mark.meta[ENGINE_EXPRESSION] = number
    node.replace(exp.alias_(mark, _default_name(node), quoted=True, copy=False) if _is_output(node) else mark)
    found[number] = EngineExpression(node, tuple(_leaf_names(leaves)), joined_items is not None, joined_items or ())
    for leaf in leaves:
        if normal(leaf) in keys:
            _replace(leaf, frozenset(), found)
        else:
            _descend(leaf, keys, found)


def _is_output(node: exp.Expr) -> bool:
    """Whether the node is an output column of a query and has no alias."""
    return isinstance(node.parent, exp.Select) and node.arg_key == "expressions"


def _default_name(node: exp.Expr) -> str:
    """The name that DuckDB gives a column without an alias: its text."""
    text = node.sql(dialect="duckdb", comments=False, normalize_functions="lower")
    return f"({text})" if isinstance(node, exp.Binary) else text


def _leaf_names(leaves: list[exp.Expr]) -> Iterator[str]:
    """The names of leaves in messages: the name of a column if no other leaf has it, else the text of the leaf."""
    short = [leaf.name if isinstance(leaf, exp.Column) else leaf.sql(comments=False) for leaf in leaves]
    for name, leaf in zip(short, leaves, strict=True):
        yield name if short.count(name) == 1 else leaf.sql(comments=False)


def _leaves(node: exp.Expr, keys: frozenset[str]) -> Iterator[exp.Expr]:
    """The outermost leaves of an expression."""
    if _is_leaf(node, keys):
        yield node
        return
    for child in node.iter_expressions():
        if not isinstance(child, _ATOMS):
            yield from _leaves(child, keys)


def _is_leaf(node: exp.Expr, keys: frozenset[str]) -> bool:
    if isinstance(node, _LEAVES) or aggregate_function(node) is not None or _is_foreign(node):
        return True
    if isinstance(node, exp.In) and (node.args.get("query") or node.args.get("unnest")):
        return True
    if isinstance(node, exp.Binary) and isinstance(node.expression, exp.Any | exp.All):
        return node.expression.find(exp.Query) is not None
    return bool(keys) and isinstance(node, exp.Condition) and normal(node) in keys


def _is_computed(node: exp.Expr, keys: frozenset[str]) -> bool:
    """Whether the engine has something to compute: more than constants and leaves, or a sum, which it casts to the
    language's type."""
    inner = node.unnest()
    if isinstance(inner, exp.Neg) and isinstance(inner.this, exp.Literal):
        inner = inner.this
    if isinstance(inner, exp.Literal) and not inner.is_string:
        return inner.name.isdigit() and int(inner.name) > _LARGEST_INTEGER
    if isinstance(inner, _PLAIN):
        return False
    if any(map(_is_foreign, _leaves(node, keys))):
        return False
    return not _is_leaf(inner, frozenset()) or _sum_of(inner) is not None


def _is_foreign(node: exp.Expr) -> bool:
    """Whether the node is a cast to a type that only DuckDB has, such as a time of day, which clients write. DuckDB
    then computes the expression around it too."""
    if not isinstance(node, exp.Cast):
        return False
    try:
        parse_type(node.to)
    except SqlError:
        return True
    return False


def _sum_of(node: exp.Expr) -> exp.Sum | None:
    """The SUM that a leaf calls; None if it calls none."""
    while isinstance(node, exp.Window | exp.Filter):
        node = node.this
    return node if isinstance(node, exp.Sum) else None
