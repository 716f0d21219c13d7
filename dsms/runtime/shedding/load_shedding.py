"""Measures the load of a fragment and the input of its sheddable queries from epoch to epoch.

The rates, the fractions of their input that queries keep, are decided in `dsms.shedding.rates`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dsms.planner.optimizer.shedding import shed_of, window_length
from dsms.planner.physical.lane import Lane
from dsms.runtime.epoch.epoch import Epoch
from dsms.runtime.lanes.revision import Revision
from dsms.runtime.shedding.costs import Costs, ShedWork
from dsms.shedding.observed_input import ObservedInput
from dsms.shedding.preferences import preferred, still_right
from dsms.shedding.rates import STEP, Demand, Load, SheddingDecision, decide
from operators.streams.preferred_values import Fraction, Preferred
from operators.streams.shed import Shed

#: The half-life of an epoch's weight in the costs, whose lines need both long and short epochs; and the half-life of
#: the arrival rate when it falls. When the arrival rate rises, the new one is used at once.
_COST_HALF_LIFE_S, _ARRIVALS_HALF_LIFE_S = 30.0, 1.0
#: A rate is kept if it would change by no more than this.
_NEGLIGIBLE = 2 * STEP
#: The fraction of the least deadline that a batch may take. It is below 0.5, because a result waits for two batches.
_DEADLINE_PART = 0.35
#: A batch may take this multiple of its fixed time if that is longer, up to another fraction of the deadline.
_FIXED_TIMES, _DEADLINE_MOST = 2.0, 0.42
#: The least fraction of a batch's time that is assumed to be usable for records.
_MIN_USABLE = 0.1
#: A batch with fewer records is not measured, because it says nothing about larger ones, unless it took all its time.
_INFORMATIVE_RECORDS = 2_000
#: A batch may hold this many times the records that arrive during it, plus this fraction of the backlog.
_BATCHES_OF_ARRIVALS, _BACKLOG_PART = 2.0, 0.5
#: The greatest factor by which `Shedding.speedup` grows in an epoch, and its greatest value.
_SPEEDUP_STEP, _MAX_SPEEDUP = 1.25, 64.0


@dataclass(frozen=True)
class Shedding:
    """The state of a fragment's shedding after an epoch. The epoch was planned at the time `planned`; `arrival_rate` is
    the number of records that arrive per second."""

    planned: float = 0.0
    unread: int = 0
    arrival_rate: float = 0.0
    costs: Costs = field(default_factory=Costs)
    observed: Mapping[str, ObservedInput] = field(default_factory=dict)
    decision: SheddingDecision = field(default_factory=lambda: SheddingDecision({}))
    #: The most records of the next batch, so that a batch does not read a whole burst; None as long as none arrive.
    batch_records: int | None = None
    #: The seconds that a batch may take.
    batch_s: float = math.inf
    #: By what factor work is faster than the costs say; learned from batches that took less time than they may.
    speedup: float = 1.0
    #: The rates by value of the queries with a preference whose input is shed.
    preferred: Mapping[str, Preferred] = field(default_factory=dict)

    @property
    def wanted(self) -> dict[str, Fraction]:
        """The rates that were decided, by query."""
        return {**self.decision.rates, **self.preferred}

    def after(
        self, epoch: Epoch, revision: Revision, at: float, seconds: float, logged: Mapping[str, float] | None = None
    ) -> Shedding:
        """The state after an epoch that ended at the time `at` and took `seconds`. The rate of a query for which this
        process has decided none was the `logged` one."""
        lanes = {lane_id: lane.sheddable for lane_id, lane in revision.lanes.items() if lane.sheddable}
        if not lanes:
            return Shedding()
        unread, records = _read(epoch, revision, lanes)
        known = self._measured(epoch, revision, (at, seconds), (unread, records))
        observed = {query: known.observed[query] for query in _queries(lanes) if query in known.observed}
        before = {query: rate for query, rate in (logged or {}).items() if query in _queries(lanes)}
        decision = replace(self.decision, rates=before | {**self.decision.rates})
        return replace(known, observed=observed, decision=decision)._decided(revision, lanes, seconds)

    def _measured(
        self, epoch: Epoch, revision: Revision, clock: tuple[float, float], counts: tuple[int, int]
    ) -> Shedding:
        (at, seconds), (unread, records) = clock, counts
        planned = at - seconds
        passed = max(planned - self.planned, 1e-3) if self.planned else seconds
        fade = 0.5 ** (passed / _COST_HALF_LIFE_S)
        arriving = max(unread - self.unread + records, 0) / passed if self.planned else 0.0
        costs = self.costs if self.costs.known else Costs(revision.plan.partitions)
        if records >= _INFORMATIVE_RECORDS or (records and seconds >= self.batch_s):
            costs = costs.after(fade, seconds, (records, _busy(epoch)), _above(epoch, revision))
        observed = dict(self.observed)
        for query, partition, statistics in epoch.measured.shed_input:
            observed[query] = observed.get(query, ObservedInput(at)).after(at, partition, statistics)
        rate = max(arriving, arriving + (self.arrival_rate - arriving) * 0.5 ** (passed / _ARRIVALS_HALF_LIFE_S))
        return replace(self, planned=planned, unread=unread, arrival_rate=rate, costs=costs, observed=observed)

    def _decided(self, revision: Revision, lanes: Mapping[str, frozenset[str]], seconds: float) -> Shedding:
        """The state with the rates and the size of the next batch. The backlog includes the records that arrived while
        the epoch was computed."""
        demands = [self._demand(query, revision) for query in sorted(_queries(lanes))]
        known = replace(self, batch_s=self._batch_seconds(demands), speedup=self._next_speedup(seconds))
        waiting, before = self.unread + self.arrival_rate * seconds, self.decision.rates
        decision = decide(*known._scaled(demands, waiting), shedding=any(rate < 1 for rate in before.values()))
        rates = {
            demand.query: _without_small_change(
                before.get(demand.query, 1.0), decision.rates[demand.query], demand.least
            )
            for demand in demands
        }
        batch = int(_BACKLOG_PART * waiting + _BATCHES_OF_ARRIVALS * self.arrival_rate * known.batch_s)
        by_value = dict(self._preferred(rates, revision))
        return replace(known, decision=replace(decision, rates=rates), batch_records=batch or None, preferred=by_value)

    def _preferred(self, rates: Mapping[str, float], revision: Revision) -> Iterator[tuple[str, Preferred]]:
        """The rates by value, for queries with a preference. They stay while they keep the decided part."""
        for query, rate in rates.items():
            sink, observed = revision.plan.queries[query].sink, self.observed.get(query, ObservedInput())
            if sink is None or sink.preference is None or rate >= 1 or not observed.recent:
                continue
            before = self.preferred.get(query)
            if before is not None and before.fraction == rate and still_right(before, observed.counts, observed.recent):
                yield query, before
            else:
                yield query, preferred(rate, sink.preference[0], observed.counts, observed.recent)

    def _batch_seconds(self, demands: Sequence[Demand]) -> float:
        """The seconds that a batch may take."""
        deadline = min(demand.deadline_s for demand in demands)
        return min(max(_DEADLINE_PART * deadline, _FIXED_TIMES * self.costs.fixed), _DEADLINE_MOST * deadline)

    def _scaled(self, demands: Sequence[Demand], waiting: float) -> tuple[list[Demand], Load]:
        """The demands and the load. Costs are scaled up to make up for the fixed part of a batch's time. Records that
        arrive during a batch are for the next batch, so they are not part of the backlog."""
        usable = self.speedup * max(1 - self.costs.fixed / self.batch_s, _MIN_USABLE)
        unshed = sum(self.costs.query(demand.query) - demand.cost for demand in demands)
        backlog = max(waiting - self.arrival_rate * self.batch_s, 0.0)
        load = Load(backlog, self.arrival_rate, (self.costs.base + unshed) / usable)
        return [replace(demand, cost=demand.cost / usable) for demand in demands], load

    def _next_speedup(self, seconds: float) -> float:
        """The next `speedup`. While input is shed, a batch that leaves no record unread should take all the time that
        it may; if it takes less, work is faster than assumed."""
        if all(rate >= 1 for rate in self.decision.rates.values()):
            return 1.0
        change = min(self.batch_s / seconds, _SPEEDUP_STEP) if not self.unread else 1 / _SPEEDUP_STEP
        return min(max(self.speedup * change, 1.0), _MAX_SPEEDUP)

    def _demand(self, query: str, revision: Revision) -> Demand:
        planned = revision.plan.queries[query]
        sink, observed = planned.sink, self.observed.get(query, ObservedInput())
        assert sink is not None and sink.deadline is not None
        cost, deadline_s = self.costs.query(query) * observed.part, sink.deadline / 1000
        if sink.max_loss is not None:
            return Demand(query, cost, None, sink.max_loss, sink.weight, deadline_s)
        assert sink.max_error is not None
        shed = shed_of(planned.node)
        spread = observed.spread(window_length(planned.node), merged=shed is not None and shed.merged)
        return Demand(query, cost, spread, sink.max_error, sink.weight, deadline_s)


def _without_small_change(before: float, rate: float, least: float) -> float:
    """The previous rate, if the change is negligible and the error bound allows it; otherwise the new rate."""
    return before if least <= before < 1 and rate < 1 and abs(before - rate) <= _NEGLIGIBLE else rate


def _queries(lanes: Mapping[str, frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*lanes.values())


def _read(epoch: Epoch, revision: Revision, lanes: Mapping[str, frozenset[str]]) -> tuple[int, int]:
    """The unread records of the lane with the fewest, and the records that this lane has read. Other lanes may be
    catching up."""
    leaves = {
        (lane, revision.lanes[lane].flow.keys[at])
        for lane in lanes
        for at, vertex in enumerate(revision.lanes[lane].flow.vertices)
        if vertex.leaf is not None
    }
    read = Counter[str]()
    for lane, key, _, work in epoch.measured.work:
        if (lane, key) in leaves:
            read[lane] += work.rows_in[0]
    first = min(lanes, key=lambda lane: (epoch.measured.behind.get(lane, 0), -read[lane]))
    return epoch.measured.behind.get(first, 0), read[first]


def _busy(epoch: Epoch) -> float:
    return sum(work.busy_ns for _, _, _, work in epoch.measured.work) / 1e9


def _above(epoch: Epoch, revision: Revision) -> dict[str, ShedWork]:
    """The work above each query's Shed in an epoch, with the rows that reached the Shed and those that it let
    through."""
    whose = {(lane_id, key): query for lane_id, lane in revision.lanes.items() for key, query in _vertices(lane)}
    busy, rows, kept = Counter[str](), Counter[str](), Counter[str]()
    for lane_id, key, _, work in epoch.measured.work:
        if (query := whose.get((lane_id, key))) is not None:
            busy[query] += work.busy_ns
    for query, _, statistics in epoch.measured.shed_input:
        rows[query] += statistics.rows
        kept[query] += statistics.kept
    return {query: (busy[query] / 1e9, rows[query], kept[query]) for query in set(whose.values())}


def _vertices(lane: Lane) -> Iterator[tuple[str, str]]:
    """The keys of the vertices above a Shed, each with the query of the Shed. No other query shares these vertices."""
    flow = lane.flow
    sheds = {at: vertex.operator.query for at, vertex in enumerate(flow.vertices) if isinstance(vertex.operator, Shed)}
    for at, key in enumerate(flow.keys) if sheds else ():
        for below in flow.below[at] & sheds.keys() - {at}:
            yield key, sheds[below]
