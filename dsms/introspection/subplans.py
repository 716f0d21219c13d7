"""The subplans of a cluster: the operators of a fragment that serve the same queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dsms.introspection.entities import Report, listed
from dsms.introspection.operator_metrics import Operator
from dsms.model.catalog import Catalog
from dsms.model.objects import Query
from dsms.model.shared_links import SharedLink
from dsms.model.subplans import SharedSubplan
from dsms.planner.physical.parts.send import Send

#: The operator that sends elements to a link.
SEND = Send.__name__
#: The columns of the rows of SHOW SUBPLANS.
COLUMNS = (
    "fragment",
    "executor",
    "operators",
    "queries",
    "load",
    "state rows",
    "state bytes",
    "link",
    "link rows",
    "link rows/s",
    "why here",
)


@dataclass(frozen=True)
class Subplan:
    """Operators of a fragment that serve the same `queries`, inputs first. `links` are those of the shared subplans and
    of the divided queries to which they send, and `fragments` those that run the queries."""

    executor: str
    fragment: str
    queries: tuple[str, ...]
    operators: tuple[Operator, ...]
    links: tuple[SharedSubplan | SharedLink, ...]
    fragments: tuple[str, ...]

    @property
    def row(self) -> tuple[object, ...]:
        """The subplan as a row of SHOW SUBPLANS."""
        sends = [operator for operator in self.operators if operator.operator == SEND]
        return (
            self.fragment,
            self.executor,
            ", ".join(operator.operator for operator in self.operators),
            listed(self.queries),
            sum(operator.load for operator in self.operators),
            sum(operator.state_rows for operator in self.operators),
            sum(operator.state_bytes for operator in self.operators),
            ", ".join(link.id for link in self.links),
            sum(operator.rows_out for operator in sends),
            sum(operator.rows_out_per_second for operator in sends),
            self.reason,
        )

    @property
    def reason(self) -> str:
        """Why the operators run in this fragment."""
        if self.links:
            return "sends to other fragments what it computes for them"
        if len(self.fragments) > 1:
            return f"computed once for queries of fragments {', '.join(self.fragments)}"
        if len(self.queries) > 1:
            return f"computed once for {len(self.queries)} queries of this fragment"
        return "only this query needs it, and runs here"


def subplans(reports: Sequence[Report], catalog: Catalog) -> Iterator[Subplan]:
    """The subplans of each fragment, from what it reports. Queries that the reports do not name are left out, because
    the caller may not read them."""
    visible = {name for report in reports for operator in report.operators for name in operator.queries}
    queries = {query.name: query for query in catalog.running() if query.name in visible}
    shared = {link.name: link for link in catalog.links()}
    readers = {name: _readers(link, queries.values()) for name, link in shared.items()}
    for report in reports:
        for served, operators in _by_queries(report.operators, readers).items():
            sent = {name for operator in operators if operator.operator == SEND for name in operator.queries}
            links = tuple(shared[name] for name in sorted(sent & shared.keys()))
            run_by = {fragment for name in served if name in queries for fragment in queries[name].fragments}
            yield Subplan(report.executor, report.fragment, served, tuple(operators), links, tuple(sorted(run_by)))


def _readers(link: SharedSubplan | SharedLink, queries: Iterable[Query]) -> tuple[str, ...]:
    return tuple(query.name for query in queries if link in query.held_links)


def _by_queries(
    operators: Iterable[Operator], readers: Mapping[str, tuple[str, ...]]
) -> Mapping[tuple[str, ...], list[Operator]]:
    """The operators by the queries that they serve. A shared subplan or link stands for the queries that read it."""
    groups: dict[tuple[str, ...], list[Operator]] = {}
    for operator in operators:
        served = {query for name in operator.queries for query in readers.get(name, (name,))}
        groups.setdefault(tuple(sorted(served)), []).append(operator)
    return groups
