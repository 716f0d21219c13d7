"""EXPLAIN ANALYZE: the operators of a running query as a tree, with what was measured of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from dsms.introspection.entities import Operator, Report, concerns, listed
from dsms.introspection.show_tables import micros, short
from dsms.model import logical, properties
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.fingerprint import fingerprint
from dsms.model.labels import label
from dsms.model.objects import Object, Query, Source, kind_of
from dsms.model.statement_result import StatementResult
from dsms.optimizer.families import plan_of_members
from dsms.physical.builder import Builder
from dsms.physical.fragment_plan import Planned, planned
from dsms.physical.lower import lower
from dsms.sql.binder.bind import plan_of

_COLUMNS = (
    "operator", "rows in", "rows out", "rows/s", "selectivity", "µs/row", "time %", "state rows", "state bytes",
    "shared with", "id",
)  # fmt: skip
_SHARED = "what an operator does for several queries is counted once, and shown with each of them"
_SILENT = "no executor has measured it yet"


def explain_analyze(statement: st.ExplainAnalyze, reports: Iterable[Report], catalog: Catalog) -> StatementResult:
    """The plan of a running query, an operator a row, inputs below and to the right."""
    found = catalog.find(statement.name.text, statement.name.place)
    if isinstance(found, Source):
        raise statement.name.place.error(f'"{found.name}" is a source', "ask for a view or query that reads it")
    mine = [one for report in reports for one in report.operators if concerns(one, found.name)]
    tree = _Tree(found.name, {one.id: one for one in mine}, labels(_planned(found, catalog)))
    shared = sum(len(one.queries) > 1 for one in mine)
    message = f'{kind_of(found)} "{found.name}": {len(mine)} operators, {shared} of them shared, {tree.busy:.3g} s busy'
    notices = (_SILENT,) if not mine else (_SHARED,) if shared else ()
    return StatementResult("EXPLAIN ANALYZE", message, _COLUMNS, tuple(tree.rows()), notices, found.name)


def _planned(found: Object, catalog: Catalog) -> Planned:
    if isinstance(found, Query):
        return planned(found, catalog)
    return Planned(found.id, found.name, plan_of(found.name, catalog))


def labels(query: Planned) -> dict[str, str]:
    """What the vertices of a query do in the words of its plan, by their keys; a node that several vertices make up
    names the last one."""
    node = query.optimized if query.member is None else plan_of_members([(query.number, query.member)])
    builder = Builder()
    builder.scope = frozenset(source.number for source in properties.sources(node))
    lower(node, builder)
    keys, found = builder.dataflow().keys, dict[str, str]()
    for one in _upwards(node):
        if (port := builder.lowered.get(fingerprint(one))) is not None:
            found.setdefault(keys[port.vertex], label(one))
    return found


def _upwards(node: logical.Node) -> Iterator[logical.Node]:
    for one in properties.inputs(node):
        yield from _upwards(one)
    yield node


@dataclass
class _Tree:
    """The operators of a query as rows. One that feeds several stands below the first of them."""

    query: str
    operators: Mapping[str, Operator]
    labels: Mapping[str, str]
    _seen: set[str] = field(default_factory=set)

    @property
    def busy(self) -> float:
        """The seconds that all of them worked."""
        return sum(one.busy_seconds for one in self.operators.values())

    def rows(self) -> Iterator[tuple[object, ...]]:
        """The results first, then what they are made from."""
        fed = {feed for one in self.operators.values() for feed in one.inputs}
        for one in self.operators.values():
            if one.id not in fed:
                yield from self._below(one, 0)

    def _below(self, one: Operator, depth: int) -> Iterator[tuple[object, ...]]:
        again = one.id in self._seen
        self._seen.add(one.id)
        yield self._row(one, depth, " (as above)" if again else "")
        for feed in one.inputs if not again else ():
            if feed in self.operators:
                yield from self._below(self.operators[feed], depth + 1)

    def _row(self, one: Operator, depth: int, note: str) -> tuple[object, ...]:
        others = tuple(name for name in one.queries if name != self.query)
        share = short(100 * one.busy_seconds / self.busy) if self.busy else None
        return (
            "  " * depth + self._called(one) + note, sum(one.rows_in), one.rows_out, short(one.rows_in_per_second),
            short(one.selectivity), micros(one.seconds_per_row), share, one.state_rows, one.state_bytes, listed(others),
            one.id,
        )  # fmt: skip

    def _called(self, one: Operator) -> str:
        said = self.labels.get(one.key)
        if said is None:
            return one.operator
        return said if said.startswith(one.operator) else f"{one.operator}: {said}"
