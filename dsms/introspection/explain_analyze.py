"""EXPLAIN ANALYZE: the operators of a running query as a tree, with the measurements of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dsms.introspection.entities import Report, belongs_to, listed
from dsms.introspection.metrics import micros, rounded
from dsms.introspection.operator_metrics import Operator
from dsms.introspection.statistics import statistics_of
from dsms.model import logical, properties
from dsms.model.catalog import Catalog
from dsms.model.fingerprint import fingerprint
from dsms.model.labels import label
from dsms.model.objects import Object, Query, kind_of
from dsms.model.statement_result import StatementResult
from dsms.planner.optimizer.families import plan_of_members
from dsms.planner.physical.builder import Builder
from dsms.planner.physical.cost.estimate import Statistics, estimated
from dsms.planner.physical.cost.flow import VertexMeasurements
from dsms.planner.physical.fragment_plan import PlannedQuery, compile_lane, planned
from dsms.planner.physical.lower import lower
from dsms.sql.binder.bind import plan_of
from operators.windows.ranged_window import RangedWindow

_COLUMNS = (
    "operator",
    "rows in",
    "rows out",
    "rows/s",
    "rows out/s",
    "expected",
    "selectivity",
    "µs/row",
    "time %",
    "state rows",
    "expected state",
    "state bytes",
    "shared with",
    "id",
)
_SHARED_WORK = "the work of an operator that several queries share is counted once, and shown for each of them"
_NO_MEASUREMENTS = "no executor has reported measurements yet"


def explain_analyze(target: Object, reports: Sequence[Report], catalog: Catalog, size: float = 1.0) -> StatementResult:
    """The plan of a running query, one operator a row; inputs are below their operator and indented. `size` is the
    current size of its windows as a fraction of their ranges."""
    operators = [operator for report in reports for operator in report.operators if belongs_to(operator, target.name)]
    query = _planned(target, catalog)
    by_id = {operator.id: operator for operator in operators}
    tree = _Tree(target.name, by_id, labels(query), expectations(query, statistics_of(reports), size))
    shared = sum(len(operator.queries) > 1 for operator in operators)
    counts = f"{len(operators)} operators, {shared} of them shared, {tree.busy:.3g} s busy"
    message = f'{kind_of(target)} "{target.name}": {counts}'
    notices = (_NO_MEASUREMENTS,) if not operators else (_SHARED_WORK,) if shared else ()
    return StatementResult("EXPLAIN ANALYZE", message, _COLUMNS, tuple(tree.rows()), notices, target.name)


def _planned(target: Object, catalog: Catalog) -> PlannedQuery:
    if isinstance(target, Query):
        return planned(target, catalog)
    return PlannedQuery(target.id, target.name, plan_of(target.name, catalog))


def expectations(query: PlannedQuery, statistics: Statistics, size: float) -> dict[str, tuple[float, float]]:
    """The rows out per second and the rows of state that the cost model expects of each vertex, by key."""
    flow = compile_lane(query.id, [query]).flow
    sized = {
        key: statistics.vertices.get(key, VertexMeasurements())._replace(fraction=size)
        for key, vertex in zip(flow.keys, flow.vertices, strict=True)
        if isinstance(vertex.operator, RangedWindow)
    }
    current = replace(statistics, vertices={**statistics.vertices, **sized})
    expected = zip(flow.keys, estimated(flow, current), strict=True)
    return {key: (vertex.flow.rows * statistics.speed, vertex.state_rows) for key, vertex in expected if vertex}


def labels(query: PlannedQuery) -> dict[str, str]:
    """The labels of a query's plan nodes, by the keys of its vertices. If a plan node becomes several vertices, the
    last one gets its label.
    """
    node = query.optimized if query.member is None else plan_of_members([(query.number, query.member)])
    builder = Builder()
    builder.scope = frozenset(source.number for source in properties.sources(node))
    lower(node, builder)
    keys, names = builder.dataflow().keys, dict[str, str]()
    for part in _inputs_first(node):
        if (port := builder.lowered.get(fingerprint(part))) is not None:
            names.setdefault(keys[port.vertex], label(part))
    return names


def _inputs_first(node: logical.Node) -> Iterator[logical.Node]:
    for input_ in properties.inputs(node):
        yield from _inputs_first(input_)
    yield node


@dataclass
class _Tree:
    """The operators of a query as rows. The inputs of an operator that feeds several operators are shown only once."""

    query: str
    operators: Mapping[str, Operator]
    labels: Mapping[str, str]
    expected: Mapping[str, tuple[float, float]]
    _seen: set[str] = field(default_factory=set)

    @property
    def busy(self) -> float:
        """The busy seconds of all operators."""
        return sum(operator.busy_seconds for operator in self.operators.values())

    def rows(self) -> Iterator[tuple[object, ...]]:
        """The rows in pre-order: each operator before its inputs, starting with those that produce results."""
        fed = {feed for operator in self.operators.values() for feed in operator.inputs}
        for operator in self.operators.values():
            if operator.id not in fed:
                yield from self._subtree(operator, 0)

    def _subtree(self, operator: Operator, depth: int) -> Iterator[tuple[object, ...]]:
        again = operator.id in self._seen
        self._seen.add(operator.id)
        yield self._row(operator, depth, " (as above)" if again else "")
        for feed in operator.inputs if not again else ():
            if feed in self.operators:
                yield from self._subtree(self.operators[feed], depth + 1)

    def _row(self, operator: Operator, depth: int, note: str) -> tuple[object, ...]:
        others = tuple(name for name in operator.queries if name != self.query)
        rate, rows = self.expected.get(operator.key, (None, None))
        share = rounded(100 * operator.busy_seconds / self.busy) if self.busy else None
        return (
            "  " * depth + self._title(operator) + note,
            sum(operator.rows_in),
            operator.rows_out,
            rounded(operator.rows_in_per_second),
            rounded(operator.rows_out_per_second),
            rounded(rate),
            rounded(operator.selectivity),
            micros(operator.seconds_per_row),
            share,
            operator.state_rows,
            None if rows is None else round(rows),
            operator.state_bytes,
            listed(others),
            operator.id,
        )

    def _title(self, operator: Operator) -> str:
        name = self.labels.get(operator.key)
        if name is None:
            return operator.operator
        return name if name.startswith(operator.operator) else f"{operator.operator}: {name}"
