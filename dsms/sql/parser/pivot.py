"""Rewrites PIVOT and UNPIVOT with literal lists in FROM to plain SELECTs: all columns of the result are in the text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from sqlglot import exp

from dsms.model.position import error_at, not_supported

_IN_FROM = "write it after a name or a subquery in FROM: FROM (SELECT …) PIVOT (SUM(v) FOR k IN (1, 2))"
_LITERALS = "list the values, as in IN ('a', 'b'): a result has the same columns at every instant"
#: The relation that numbers the columns of an UNPIVOT, and its column.
_POSITION = "__position"
#: The most nodes of the expressions that PIVOT makes: it repeats each aggregate for each value.
_MAX_COPIED = 20_000


def without_pivots(tree: exp.Expr) -> exp.Expr:
    """The query with each PIVOT and UNPIVOT in FROM replaced by a subquery. Raises SqlError for one elsewhere.

    PIVOT computes each aggregate for each listed value, over the groups of all columns that it does not name:

    >>> import sqlglot
    >>> print(without_pivots(sqlglot.parse_one("SELECT * FROM t PIVOT (SUM(v) FOR k IN (1, 2 AS c))")).sql("duckdb"))
    SELECT * FROM (SELECT * EXCLUDE (v, k), SUM(v) FILTER(WHERE k = 1) AS "1", SUM(v) FILTER(WHERE k = 2) AS "c" FROM \
t GROUP BY ALL) AS "t"

    UNPIVOT repeats each row for each listed column whose value is not NULL.
    """
    pivoted = dict.fromkeys(pivot.parent for pivot in tree.find_all(exp.Pivot))
    for item in reversed(list(pivoted)):
        if not isinstance(item, exp.Table | exp.Subquery) or item.parent is None:
            raise not_supported(tree.find(exp.Pivot) or tree, "PIVOT of this relation", _IN_FROM)
        place = exp.Placeholder()
        item.replace(place)
        place.replace(_rewritten(item))
    return tree


def _rewritten(item: exp.Expr) -> exp.Expr:
    """The item without its pivots, in subqueries that compute them. Its joins follow the last of these."""
    pivots, joins, name = item.args["pivots"], item.args.get("joins"), item.alias_or_name
    item.set("pivots", None)
    item.set("joins", None)
    for pivot in pivots:
        select = _unpivoted(item, pivot) if pivot.args.get("unpivot") else _pivoted(item, pivot)
        alias = pivot.args.get("alias") or (exp.TableAlias(this=exp.to_identifier(name, quoted=True)) if name else None)
        item = exp.Subquery(this=select, alias=alias)
    item.set("joins", joins)
    return item


@dataclass(frozen=True)
class _Choice:
    """One of the listed values: its name in the columns of the result, and the condition of its rows."""

    name: str
    condition: exp.Expr


def _pivoted(item: exp.Expr, pivot: exp.Expr) -> exp.Select:
    if pivot.args.get("default_on_null"):
        raise not_supported(pivot, "DEFAULT ON NULL in PIVOT", "COALESCE in the SELECT around it")
    groups = [_choices(field) for field in pivot.args["fields"]]
    copied = prod(map(len, groups)) * sum(1 for aggregate in pivot.expressions for _ in aggregate.walk())
    if copied > _MAX_COPIED:
        raise error_at(
            pivot, "PIVOT makes the SELECT too large", hint="list fewer values, or compute the aggregates below it"
        )
    chosen = [_combined(choice) for choice in product(*groups)]
    computed = [_column(aggregate, choice, pivot) for choice in chosen for aggregate in pivot.expressions]
    group = pivot.args.get("group")
    read = [*pivot.expressions, *(field.this for field in pivot.args["fields"])]
    kept = group.expressions if group else [_other_columns(read)]
    keys = exp.Group(expressions=[key.copy() for key in kept]) if group else exp.Group(all=True)
    return exp.Select(expressions=[*kept, *computed], from_=exp.From(this=item), group=keys)


def _other_columns(read: list[exp.Expr]) -> exp.Star:
    """`*` without the columns that the expressions read."""
    names = {column.name.casefold(): column.this for each in read for column in each.find_all(exp.Column)}
    return exp.Star(except_=[name.copy() for name in names.values() if isinstance(name, exp.Identifier)] or None)


def _choices(field: exp.Expr) -> list[_Choice]:
    """The values of `FOR column IN (…)`, or of `FOR (a, b) IN ((…), …)`."""
    if not isinstance(field, exp.In) or not field.expressions:
        raise not_supported(field, "PIVOT without a list of values", _LITERALS)
    return [_choice(field.this, value) for value in field.expressions]


def _choice(key: exp.Expr, listed: exp.Expr) -> _Choice:
    value = listed.this if isinstance(listed, exp.PivotAlias) else listed
    keys, values = _parts(key), _parts(value)
    if len(keys) != len(values):
        raise error_at(listed, f"{len(values)} values for {len(keys)} columns of FOR")
    name = listed.args["alias"].name if isinstance(listed, exp.PivotAlias) else "_".join(map(_name, values))
    return _Choice(name, exp.and_(*map(_equal, keys, values)))


def _parts(node: exp.Expr) -> list[exp.Expr]:
    return list(node.expressions) if isinstance(node, exp.Tuple) else [node.unnest()]


def _equal(key: exp.Expr, value: exp.Expr) -> exp.Expr:
    kind = exp.Is if isinstance(value, exp.Null) else exp.EQ
    return kind(this=key.copy(), expression=value.copy())


def _name(value: exp.Expr) -> str:
    """The name of the columns of a literal. Raises SqlError for anything else."""
    if isinstance(value, exp.Neg) and isinstance(value.this, exp.Literal):
        return f"-{value.this.name}"
    if isinstance(value, exp.Boolean | exp.Null):
        return value.sql().lower()
    literal = value.this if isinstance(value, exp.Cast) else value
    if not isinstance(literal, exp.Literal):
        raise not_supported(value, "PIVOT by a value that is not a literal", _LITERALS)
    return str(literal.name)


def _combined(choices: tuple[_Choice, ...]) -> _Choice:
    return _Choice("_".join(choice.name for choice in choices), exp.and_(*(choice.condition for choice in choices)))


def _column(aggregate: exp.Expr, choice: _Choice, pivot: exp.Expr) -> exp.Expr:
    """`SUM(v) FILTER (WHERE k = 'a') AS a`. The name also has that of the aggregate if there are several."""
    call = aggregate.unalias().copy()
    suffix = aggregate.alias or (_called(call) if len(pivot.expressions) > 1 else "")
    condition = choice.condition.copy()
    if isinstance(call, exp.Filter):
        call, condition = call.this, exp.and_(call.expression.this, condition)
    filtered = exp.Filter(this=call, expression=exp.Where(this=condition))
    return exp.alias_(filtered, f"{choice.name}_{suffix}" if suffix else choice.name, quoted=True, copy=False)


def _called(call: exp.Expr) -> str:
    while isinstance(call, exp.Filter | exp.WithinGroup):
        call = call.this
    return (
        call.sql_name() if isinstance(call, exp.Func) and not isinstance(call, exp.Anonymous) else call.name
    ).lower()


def _unpivoted(item: exp.Expr, pivot: exp.Expr) -> exp.Select:
    """Each row, once for each listed column. `generate_series` numbers the columns, and CASE chooses one."""
    (field,) = pivot.args["fields"]
    columns = [listed.this if isinstance(listed, exp.PivotAlias) else listed for listed in field.expressions]
    if len(pivot.expressions) != 1 or not all(isinstance(column, exp.Column) for column in columns):
        raise not_supported(pivot, "UNPIVOT of several columns at once", "an UNPIVOT for each of them, joined by name")
    names = [
        exp.Literal.string(listed.alias or column.name)
        for listed, column in zip(field.expressions, columns, strict=True)
    ]
    value = _chosen(columns)
    shown = [
        _other_columns([*columns, exp.column(_POSITION)]),
        exp.alias_(_chosen(names), field.this.copy()),
        exp.alias_(value, pivot.expressions[0].copy()),
    ]
    present = (
        None
        if pivot.args.get("include_nulls")
        else exp.Where(this=exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null())))
    )
    return exp.Select(expressions=shown, from_=exp.From(this=item), joins=[_positions(len(columns))], where=present)


def _positions(count: int) -> exp.Join:
    series = exp.ExplodingGenerateSeries(start=exp.Literal.number(1), end=exp.Literal.number(count))
    name = exp.to_identifier(_POSITION)
    return exp.Join(this=exp.Lateral(this=series, alias=exp.TableAlias(this=name, columns=[name.copy()])), kind="CROSS")


def _chosen(values: Sequence[exp.Expr]) -> exp.Case:
    """The value whose number is the position."""
    return exp.Case(this=exp.column(_POSITION, _POSITION), ifs=list(_numbered(values)))


def _numbered(values: Sequence[exp.Expr]) -> Iterator[exp.If]:
    for number, value in enumerate(values, 1):
        yield exp.If(this=exp.Literal.number(number), true=value.copy())
