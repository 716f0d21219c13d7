"""What a fragment knows of its load and of the queries whose input may be shed, from epoch to epoch, and the rates that
follow: measured here, decided in `dsms.scheduler.shedding`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from dsms.executor.epoch import Epoch
from dsms.executor.lanes import Revision
from dsms.plan.lane import Lane
from dsms.plan.shedding import window_length
from dsms.scheduler.shedding import STEP, Decision, Demand, Load, decide
from dsms.scheduler.spread import Observed
from operators.shed import Shed

#: The weight of what is older halves in so many seconds.
_HALF_LIFE_S = 3.0
#: A rate that would change by so little stays.
_SLIGHT = 2 * STEP


@dataclass(frozen=True)
class Used:
    """Seconds and records of the epochs that left records unread, and the busy time of all vertices and of those above
    each query's Shed: what is older counts less."""

    seconds: float = 0.0
    records: float = 0.0
    busy: float = 0.0
    above: Mapping[str, float] = field(default_factory=dict)

    def after(self, fade: float, seconds: float, records: int, busy: Mapping[str, float]) -> Used:
        """With an epoch more; the key "" stands for all vertices."""
        above = {query: self.above.get(query, 0.0) * fade + one for query, one in busy.items() if query}
        return Used(self.seconds * fade + seconds, self.records * fade + records, self.busy * fade + busy[""], above)

    def cost(self, query: str) -> float:
        """The seconds of a record that are above a query's Shed."""
        return self.record * self.above.get(query, 0.0) / self.busy if self.busy else 0.0

    @property
    def record(self) -> float:
        """The seconds of a record."""
        return self.seconds / self.records if self.records else 0.0


@dataclass(frozen=True)
class Shedding:
    """The state of a fragment's shedding after an epoch."""

    at: float = 0.0
    unread: int = 0
    arrivals: float = 0.0
    used: Used = field(default_factory=Used)
    observed: Mapping[str, Observed] = field(default_factory=dict)
    decision: Decision = field(default_factory=lambda: Decision({}))

    def after(self, epoch: Epoch, revision: Revision, at: float, seconds: float) -> Shedding:
        """After an epoch that ended at a time and took so many seconds."""
        lanes = {lane_id: lane.sheddable for lane_id, lane in revision.lanes.items() if lane.sheddable}
        if not lanes:
            return Shedding(at)
        unread, records = _read(epoch, revision, lanes)
        known = self._measured(epoch, revision, (at, seconds), (unread, records))
        observed = {query: known.observed[query] for query in _queries(lanes) if query in known.observed}
        return replace(known, observed=observed, decision=known._decided(revision, lanes))

    def _measured(
        self, epoch: Epoch, revision: Revision, clock: tuple[float, float], counts: tuple[int, int]
    ) -> Shedding:  # fmt: skip
        (at, seconds), (unread, records) = clock, counts
        passed = max(at - self.at, 1e-3) if self.at else seconds
        fade = 0.5 ** (passed / _HALF_LIFE_S)
        came = max(unread - self.unread + records, 0) / passed
        arrivals = came if not self.at else self.arrivals * fade + came * (1 - fade)
        used = self.used
        if unread and records:
            used = used.after(fade, passed if self.unread else seconds, records, _busy(epoch, revision))
        observed = dict(self.observed)
        for query, partition, seen in epoch.seen:
            observed[query] = observed.get(query, Observed(at)).after(at, partition, seen)
        return Shedding(at, unread, arrivals, used, observed, self.decision)

    def _decided(self, revision: Revision, lanes: Mapping[str, frozenset[str]]) -> Decision:
        demands = [self._demand(query, revision) for query in sorted(_queries(lanes))]
        spent = sum(self.used.cost(one.query) for one in demands)
        load = Load(self.unread, self.arrivals, max(self.used.record - spent, 0.0))
        before = self.decision.rates
        found = decide(demands, load, shedding=any(rate < 1 for rate in before.values()))
        steady = {one.query: _steady(before.get(one.query, 1.0), found.rates[one.query], one.least) for one in demands}
        return replace(found, rates=steady)

    def _demand(self, query: str, revision: Revision) -> Demand:
        planned = revision.plan.queries[query]
        sink, seen = planned.sink, self.observed.get(query, Observed())
        assert sink is not None and sink.max_error is not None and sink.deadline is not None
        cost = self.used.cost(query) / max(seen.rate, STEP)
        spread = seen.spread(window_length(planned.node))
        return Demand(query, cost, spread, sink.max_error, sink.weight, sink.deadline / 1000)


def _steady(before: float, rate: float, least: float) -> float:
    """The rate before, where the change would be slight and the bound allows it."""
    return before if least <= before < 1 and rate < 1 and abs(before - rate) <= _SLIGHT else rate


def _queries(lanes: Mapping[str, frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*lanes.values())


def _read(epoch: Epoch, revision: Revision, lanes: Mapping[str, frozenset[str]]) -> tuple[int, int]:
    """What the lane that is behind least has still to read, and what it has read: others may be catching up."""
    leaves = {
        (lane, revision.lanes[lane].flow.keys[at])
        for lane in lanes for at, vertex in enumerate(revision.lanes[lane].flow.vertices) if vertex.leaf is not None
    }  # fmt: skip
    read = Counter[str]()
    for lane, key, _, work in epoch.work:
        if (lane, key) in leaves:
            read[lane] += work.rows_in[0]
    first = min(lanes, key=lambda lane: (epoch.behind.get(lane, 0), -read[lane]))
    return epoch.behind.get(first, 0), read[first]


def _busy(epoch: Epoch, revision: Revision) -> Counter[str]:
    """The busy time above each query's Shed, and under "" that of all vertices."""
    whose = {(lane_id, key): query for lane_id, lane in revision.lanes.items() for key, query in _above(lane)}
    found = Counter[str]({"": 0})
    for lane_id, key, _, work in epoch.work:
        found[""] += work.busy_ns
        if (query := whose.get((lane_id, key))) is not None:
            found[query] += work.busy_ns
    return found


def _above(lane: Lane) -> Iterator[tuple[str, str]]:
    """The vertices above a Shed by key, each with the query: nobody shares them."""
    flow = lane.flow
    sheds_ = {at: one.operator.query for at, one in enumerate(flow.vertices) if isinstance(one.operator, Shed)}
    for at, key in enumerate(flow.keys) if sheds_ else ():
        for below in flow.below[at] & sheds_.keys() - {at}:
            yield key, sheds_[below]
