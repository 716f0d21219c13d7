"""Reference semantics of logical plans: the relation of a plan over given tables, row by row in plain Python."""

from __future__ import annotations

import statistics
from collections import Counter
from functools import cmp_to_key, singledispatch

import polars as pl

from dsms.model import logical
from dsms.model.schema import schema
from operators.expressions import Expression, evaluate
from operators.expressions.arrow_types import polars_type

Row = tuple
Tables = dict[str, list[Row]]


def relation(node: logical.Node, tables: Tables) -> list[Row]:
    """The rows of a plan. The keys of `tables` are names of streams; their rows lack TS, which is 0."""
    rows = _rows(node, tables)
    width = len(schema(node))
    assert all(len(row) == width for row in rows)
    for at, field in enumerate(schema(node)):
        assert field.nullable or all(row[at] is not None for row in rows), f"NULL in {field.name} of {node}"
    return rows


def names(node: logical.Node) -> list[str]:
    """The names of the columns; no two are equal."""
    listed = schema(node).names
    assert len(set(listed)) == len(listed), listed
    return listed


def values(node: logical.Node, rows: list[Row], expressions: list[Expression]) -> list[Row]:
    """The values of expressions over the rows of a node."""
    if not rows:
        return []
    fields = schema(node)
    data = {f.name: pl.Series(f.name, [r[i] for r in rows], dtype=polars_type(f.type)) for i, f in enumerate(fields)}
    frame = pl.DataFrame({"": range(len(rows))} | data)
    evaluated, faults = evaluate(frame, {f"\1{i}": expression for i, expression in enumerate(expressions)})
    assert faults.null_count() == len(rows), faults
    columns = [evaluated[f"\1{i}"] for i in range(len(expressions))]
    columns = [pl.Series([c[0]] * len(rows)) if len(c) == 1 and len(rows) > 1 else c for c in columns]
    return [tuple(_plain(c[i]) for c in columns) for i in range(len(rows))]


def _plain(value: object) -> object:
    return tuple(value) if isinstance(value, pl.Series | list) else value


def _getter(node: logical.Node, columns) -> object:
    places = [names(node).index(name) for name in columns]
    return lambda row: tuple(row[place] for place in places)


@singledispatch
def _rows(node: logical.Node, tables: Tables) -> list[Row]:
    raise TypeError(node)


@_rows.register
def _(node: logical.StreamScan, tables: Tables) -> list[Row]:
    return [(*row, 0) for row in tables[node.stream.lower()]]


@_rows.register
def _(node: logical.Values, tables: Tables) -> list[Row]:
    return list(node.rows)


@_rows.register
def _(node: logical.Filter, tables: Tables) -> list[Row]:
    rows = relation(node.input, tables)
    return [row for row, (kept,) in zip(rows, values(node.input, rows, [node.predicate]), strict=True) if kept]


@_rows.register
def _(node: logical.Project, tables: Tables) -> list[Row]:
    names(node)
    return values(node.input, relation(node.input, tables), [output for _, output in node.outputs])


def _partners(node, tables: Tables):
    """The rows of both inputs, and the index pairs (left, right) of the rows that are joined."""
    left, right = relation(node.left, tables), relation(node.right, tables)
    names_left, names_right = names(node.left), names(node.right)
    assert isinstance(node, logical.SemiJoin) or not set(names_left) & set(names_right), (names_left, names_right)
    for name, other in node.on:
        assert schema(node.left).field(name).type == schema(node.right).field(other).type, (name, other)
    key_left = _getter(node.left, [name for name, _ in node.on])
    key_right = _getter(node.right, [name for _, name in node.on])
    by_key: dict[Row, list[int]] = {}
    for at, row in enumerate(right):
        by_key.setdefault(key_right(row), []).append(at)
    pairs = [
        (i, j)
        for i, row in enumerate(left)
        for j in by_key.get(key_left(row), ())
        if node.nulls_equal or None not in key_left(row)
    ]
    if node.residual is not None:
        both = logical.Join(node.left, node.right, ())
        assert not set(names_left) & set(names_right)
        kept = values(both, [left[i] + right[j] for i, j in pairs], [node.residual])
        pairs = [pair for pair, (passed,) in zip(pairs, kept, strict=True) if passed]
    return left, right, pairs


@_rows.register
def _(node: logical.Join, tables: Tables) -> list[Row]:
    left, right, pairs = _partners(node, tables)
    rows = [left[i] + right[j] for i, j in pairs]
    if node.outer in ("left", "full"):
        met = {i for i, _ in pairs}
        rows += [row + (None,) * len(names(node.right)) for i, row in enumerate(left) if i not in met]
    if node.outer in ("right", "full"):
        met = {j for _, j in pairs}
        rows += [(None,) * len(names(node.left)) + row for j, row in enumerate(right) if j not in met]
    return rows


@_rows.register
def _(node: logical.SemiJoin, tables: Tables) -> list[Row]:
    left, _, pairs = _partners(node, tables)
    met = {i for i, _ in pairs}
    return [row for i, row in enumerate(left) if (i in met) != node.anti]


@_rows.register
def _(node: logical.Union, tables: Tables) -> list[Row]:
    for branch in node.inputs:
        assert [(f.name, f.type) for f in schema(branch)] == [(f.name, f.type) for f in schema(node)]
    return [row for branch in node.inputs for row in relation(branch, tables)]


@_rows.register
def _(node: logical.Distinct, tables: Tables) -> list[Row]:
    return list(dict.fromkeys(relation(node.input, tables)))


@_rows.register
def _(node: logical.SetOperation, tables: Tables) -> list[Row]:
    assert [(f.name, f.type) for f in schema(node.left)] == [(f.name, f.type) for f in schema(node.right)]
    left, right = Counter(relation(node.left, tables)), Counter(relation(node.right, tables))
    if not node.kind.endswith("_all"):
        left, right = Counter(set(left)), Counter(set(right))
    return list(((left - right) if node.kind.startswith("except") else (left & right)).elements())


def _sorted(node: logical.Node, rows: list[Row], order) -> list[Row]:
    def compare(row: Row, other: Row) -> int:
        for key in order:
            place = names(node).index(key.column)
            a, b = row[place], other[place]
            if a == b:
                continue
            if a is None or b is None:
                return (1 if a is None else -1) * (1 if key.nulls_last else -1)
            return (1 if a > b else -1) * (-1 if key.descending else 1)
        return 0

    return sorted(rows, key=cmp_to_key(compare))


def _ranks(node: logical.Node, rows: list[Row], order) -> list[tuple[int, int, int]]:
    """Row number, rank and dense rank of sorted rows."""
    key = _getter(node, [sort_key.column for sort_key in order])
    ranks: list[tuple[int, int, int]] = []
    for at, row in enumerate(rows):
        same = at and key(rows[at - 1]) == key(row)
        before = ranks[-1] if ranks else (0, 0, 0)
        ranks.append((at + 1, before[1] if same else at + 1, before[2] if same else before[2] + 1))
    return ranks


def _partitions(node: logical.Node, rows: list[Row], partition) -> list[list[Row]]:
    key = _getter(node, partition)
    groups: dict[Row, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return list(groups.values())


@_rows.register
def _(node: logical.TopK, tables: Tables) -> list[Row]:
    which = ["row_number", "rank", "dense_rank"].index(node.method)
    kept = []
    for rows in _partitions(node.input, relation(node.input, tables), node.partition):
        ordered = _sorted(node.input, rows, node.order)
        for row, ranks in zip(ordered, _ranks(node.input, ordered, node.order), strict=True):
            if node.offset < ranks[which] and (node.limit is None or ranks[which] <= node.offset + node.limit):
                kept.append(row if node.rank is None else (*row, ranks[which]))
    return kept


@_rows.register
def _(node: logical.Unnest, tables: Tables) -> list[Row]:
    get = _getter(node.input, [node.column])
    unnested = []
    for row in relation(node.input, tables):
        elements = get(row)[0] or ()
        unnested += [(*row, element) for element in (elements or ([None] if node.outer else []))]
    return unnested


@_rows.register
def _(node: logical.GroupBy, tables: Tables) -> list[Row]:
    rows = relation(node.input, tables)
    key = _getter(node.input, node.keys)
    groups: dict[Row, list[Row]] = {} if node.keys else {(): []}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return [
        (*keys, *(_aggregate(node.input, aggregate, members) for aggregate in node.aggregates))
        for keys, members in groups.items()
    ]


def _aggregate(node: logical.Node, call, rows: list[Row]) -> object:
    if call.filter is not None:
        rows = [row for row in rows if _getter(node, [call.filter])(row)[0]]
    rows = _sorted(node, rows, call.order_by)
    arguments = [_getter(node, call.arguments)(row) for row in rows]
    arguments = list(dict.fromkeys(arguments)) if call.distinct else arguments
    if call.function == "count":
        return sum(None not in row for row in arguments)
    if call.function == "array_agg":
        return tuple(first for first, *_ in arguments) if arguments else None
    present = [row[0] for row in arguments if None not in row]
    return apply(call.function, present, call.parameters, arguments)


def apply(function: str, present: list, parameters=(), pairs=()) -> object:
    if function in ("count", "count_if", "approx_count_distinct"):
        counted = {"count": present, "count_if": [value for value in present if value]}
        return len(counted.get(function, set(present)))
    if not present:
        return None
    return {
        "sum": lambda: sum(present), "avg": lambda: float(sum(present)) / len(present), "min": lambda: min(present),
        "max": lambda: max(present), "bool_and": lambda: all(present), "bool_or": lambda: any(present),
        "string_agg": lambda: (parameters[0] if parameters else ",").join(present),
        "median": lambda: float(statistics.median(present)),
        "percentile_disc": lambda: sorted(present)[max(-(-len(present) * float(parameters[0]) // 1), 1).__int__() - 1],
        "percentile_cont": lambda: _interpolated(sorted(present), float(parameters[0])),
        "var_pop": lambda: statistics.pvariance(map(float, present)),
        "stddev_samp": lambda: statistics.stdev(map(float, present)) if len(present) > 1 else None,
        "arg_max": lambda: max((pair[1], pair[0]) for pair in pairs if None not in pair)[1],
        "arg_min": lambda: min((pair[1], pair[0]) for pair in pairs if None not in pair)[1],
        "first": lambda: pairs[0][0], "last": lambda: pairs[-1][0], "any_value": lambda: present[0],
    }[function]()  # fmt: skip


def _interpolated(ordered: list, fraction: float) -> float:
    place = fraction * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return float(ordered[low]) + (float(ordered[high]) - float(ordered[low])) * (place - low)


@_rows.register
def _(node: logical.WindowFunctions, tables: Tables) -> list[Row]:
    rows = relation(node.input, tables)
    numbered = [(*row, at) for at, row in enumerate(rows)]
    extra: dict[int, list[object]] = {at: [] for at in range(len(rows))}
    for call in node.calls:
        for part in _partitions(node.input, numbered, call.partition):
            ordered = _sorted(node.input, part, call.order)
            for at, value in enumerate(_over(node.input, call, ordered)):
                extra[ordered[at][-1]].append(value)
    return [(*row, *extra[at]) for at, row in enumerate(rows)]


def _over(node: logical.Node, call, rows: list[Row]) -> list[object]:
    ranks = _ranks(node, rows, call.order)
    if call.function in ("row_number", "rank", "dense_rank"):
        which = ["row_number", "rank", "dense_rank"].index(call.function)
        return [rank[which] for rank in ranks]
    count = len(rows)
    if call.function == "percent_rank":
        return [(rank[1] - 1) / (count - 1) if count > 1 else 0.0 for rank in ranks]
    if call.function == "cume_dist":
        return [sum(other[1] <= rank[1] for other in ranks) / count for rank in ranks]
    if call.function == "ntile":
        size, more = divmod(count, call.parameters[0])
        sizes = [size + (at < more) for at in range(call.parameters[0])]
        return [at + 1 for at, members in enumerate(sizes) for _ in range(members)]
    arguments = [_getter(node, call.arguments)(row) for row in rows]
    if call.function in ("lag", "lead"):
        offset = (call.parameters[0] if call.parameters else 1) * (-1 if call.function == "lag" else 1)
        default = call.parameters[1] if len(call.parameters) > 1 else None
        return [arguments[at + offset][0] if 0 <= at + offset < count else default for at in range(count)]
    return [_framed(node, call, rows, ranks, arguments, at) for at in range(count)]


def _framed(node, call, rows, ranks, arguments, at: int) -> object:
    inside = [j for j in range(len(rows)) if _in_frame(node, call, rows, ranks, at, j)]
    if call.function in ("first_value", "last_value"):
        return arguments[inside[0 if call.function == "first_value" else -1]][0] if inside else None
    if call.function == "nth_value":
        place = call.parameters[0] - 1
        return arguments[inside[place]][0] if place < len(inside) else None
    if call.function == "count":
        return sum(None not in arguments[j] for j in inside)
    return apply(call.function, [arguments[j][0] for j in inside if None not in arguments[j]])


def _in_frame(node, call, rows, ranks, at: int, j: int) -> bool:
    if call.frame == "rows":
        distance = j - at
    elif call.start in (None, 0) and call.end in (None, 0):
        distance = ranks[j][2] - ranks[at][2]
    else:
        (key,) = call.order
        get = _getter(node, [key.column])
        a, b = get(rows[at])[0], get(rows[j])[0]
        if a is None or b is None:
            return a is None and b is None or (call.start is None and j < at) or (call.end is None and j > at)
        distance = (b - a) * (-1 if key.descending else 1)
    return (call.start is None or distance >= call.start) and (call.end is None or distance <= call.end)
