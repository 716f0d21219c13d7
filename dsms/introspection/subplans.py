"""The subplans of a cluster: the operators of a fragment that serve the same queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from dsms.introspection.entities import Report, listed
from dsms.introspection.operator_metrics import Operator
from dsms.model.subplans import SharedSubplan

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
    """Operators of a fragment that serve the same `queries`, inputs first. `links` are the shared subplans whose
    elements they compute for other fragments."""

    executor: str
    fragment: str
    queries: tuple[str, ...]
    operators: tuple[Operator, ...]
    links: tuple[SharedSubplan, ...]

    @property
    def row(self) -> tuple[object, ...]:
        """The subplan as a row of SHOW SUBPLANS."""
        sends = [operator for operator in self.operators if operator.operator == "Send"]
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
            return "computed once for queries of several fragments, which read it through the link"
        if len(self.queries) > 1:
            return f"shared by {len(self.queries)} queries of this fragment"
        return "only this query needs it, and runs here"


def subplans(reports: Iterable[Report], shared: Iterable[SharedSubplan]) -> Iterator[Subplan]:
    """The subplans of each fragment, from what it reports. `shared` are the shared subplans of the catalog."""
    by_name = {subplan.name: subplan for subplan in shared}
    for report in reports:
        for names, operators in _by_queries(report.operators).items():
            queries = tuple(name for name in names if name not in by_name)
            links = tuple(by_name[name] for name in names if name in by_name)
            yield Subplan(report.executor, report.fragment, queries, tuple(operators), links)


def _by_queries(operators: Iterable[Operator]) -> Mapping[tuple[str, ...], list[Operator]]:
    groups: dict[tuple[str, ...], list[Operator]] = {}
    for operator in operators:
        groups.setdefault(tuple(sorted(operator.queries)), []).append(operator)
    return groups
