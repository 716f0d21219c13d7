"""What a fragment knows of its load and of the queries whose input may be shed, from epoch to epoch, and the rates that
follow: measured here, decided in `dsms.scheduler.shedding`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dsms.optimizer.shedding import window_length
from dsms.physical.lane import Lane
from dsms.runtime.epoch.epoch import Epoch
from dsms.runtime.lanes.revision import Revision
from dsms.runtime.shedding.costs import Costs, Did
from dsms.scheduler.shedding import STEP, Decision, Demand, Load, decide
from dsms.scheduler.spread import Observed
from operators.streams.shed import Shed

#: The weight of older epochs halves in so many seconds: lines need long ones and short ones. What comes is believed at
#: once to be more, and to be less by half in so many.
_HALF_LIFE_S, _CALMING_S = 30.0, 1.0
#: A rate that would change by so little stays.
_SLIGHT = 2 * STEP
#: A batch is to take this part of the least deadline, or so many times its fixed part, but no more than the other part:
#: a result waits for two batches.
_PART, _TIMES, _MOST = 0.35, 2.0, 0.42
#: At least this part of a batch's time counts as left for records.
_LEFT = 0.1
#: From a batch with fewer records nothing follows for larger ones, unless it took as long as one may.
_TELLING = 2_000
#: It may hold so many times what comes while it lasts, and this part of what waits.
_MORE, _WAITING = 2.0, 0.5
#: Work that is cheaper than costs tell counts as cheaper by no more an epoch, and by no more in all.
_EASIER, _EASIEST = 1.25, 64.0


@dataclass(frozen=True)
class Shedding:
    """The state of a fragment's shedding after an epoch, which was planned at a time."""

    planned: float = 0.0
    unread: int = 0
    arrivals: float = 0.0
    costs: Costs = field(default_factory=Costs)
    observed: Mapping[str, Observed] = field(default_factory=dict)
    decision: Decision = field(default_factory=lambda: Decision({}))
    #: The most records of the next batch: a burst is not read as a whole before it is known. None where nothing is.
    batch_records: int | None = None
    #: The seconds that a batch may take.
    lasts: float = math.inf
    #: Work is this many times cheaper than costs tell, as batches that were done in less than their time have shown.
    ease: float = 1.0

    def after(self, epoch: Epoch, revision: Revision, at: float, seconds: float) -> Shedding:
        """After an epoch that ended at a time and took so many seconds."""
        lanes = {lane_id: lane.sheddable for lane_id, lane in revision.lanes.items() if lane.sheddable}
        if not lanes:
            return Shedding()
        unread, records = _read(epoch, revision, lanes)
        known = self._measured(epoch, revision, (at, seconds), (unread, records))
        observed = {query: known.observed[query] for query in _queries(lanes) if query in known.observed}
        return replace(known, observed=observed)._decided(revision, lanes, seconds)

    def _measured(
        self, epoch: Epoch, revision: Revision, clock: tuple[float, float], counts: tuple[int, int]
    ) -> Shedding:
        (at, seconds), (unread, records) = clock, counts
        planned = at - seconds
        passed = max(planned - self.planned, 1e-3) if self.planned else seconds
        fade = 0.5 ** (passed / _HALF_LIFE_S)
        came = max(unread - self.unread + records, 0) / passed if self.planned else 0.0
        costs = self.costs if self.costs.known else Costs(revision.plan.partitions)
        if records >= _TELLING or (records and seconds >= self.lasts):
            costs = costs.after(fade, seconds, (records, _busy(epoch)), _above(epoch, revision))
        observed = dict(self.observed)
        for query, partition, seen in epoch.measured.seen:
            observed[query] = observed.get(query, Observed(at)).after(at, partition, seen)
        arrivals = max(came, came + (self.arrivals - came) * 0.5 ** (passed / _CALMING_S))
        return replace(self, planned=planned, unread=unread, arrivals=arrivals, costs=costs, observed=observed)

    def _decided(self, revision: Revision, lanes: Mapping[str, frozenset[str]], seconds: float) -> Shedding:
        """With the rates and the size of the next batch. What came since the epoch was planned waits, too."""
        demands = [self._demand(query, revision) for query in sorted(_queries(lanes))]
        known = replace(self, lasts=self._time(demands), ease=self._eased(seconds))
        waiting, before = self.unread + self.arrivals * seconds, self.decision.rates
        decision = decide(*known._priced(demands, waiting), shedding=any(rate < 1 for rate in before.values()))
        rates = {
            demand.query: _steady(before.get(demand.query, 1.0), decision.rates[demand.query], demand.least)
            for demand in demands
        }
        batch = int(_WAITING * waiting + _MORE * self.arrivals * known.lasts)
        return replace(known, decision=replace(decision, rates=rates), batch_records=batch or None)

    def _time(self, demands: Sequence[Demand]) -> float:
        """The seconds that a batch may take."""
        deadline = min(demand.deadline_s for demand in demands)
        return min(max(_PART * deadline, _TIMES * self.costs.fixed), _MOST * deadline)

    def _priced(self, demands: Sequence[Demand], waiting: float) -> tuple[list[Demand], Load]:
        """The demands and the load with seconds of which all are there for records: a batch's fixed part is not. What
        comes while a batch lasts is for the next one, and no backlog."""
        usable = self.ease * max(1 - self.costs.fixed / self.lasts, _LEFT)
        stays = sum(self.costs.query(demand.query) - demand.cost for demand in demands)
        backlog = max(waiting - self.arrivals * self.lasts, 0.0)
        load = Load(backlog, self.arrivals, (self.costs.base + stays) / usable)
        return [replace(demand, cost=demand.cost / usable) for demand in demands], load

    def _eased(self, seconds: float) -> float:
        """Feedback: while input is shed, batches that read all there is are to take the time that they may."""
        if all(rate >= 1 for rate in self.decision.rates.values()):
            return 1.0
        change = min(self.lasts / seconds, _EASIER) if not self.unread else 1 / _EASIER
        return min(max(self.ease * change, 1.0), _EASIEST)

    def _demand(self, query: str, revision: Revision) -> Demand:
        planned = revision.plan.queries[query]
        sink, seen = planned.sink, self.observed.get(query, Observed())
        assert sink is not None and sink.max_error is not None and sink.deadline is not None
        spread, cost = seen.spread(window_length(planned.node)), self.costs.query(query) * seen.part
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


def _above(epoch: Epoch, revision: Revision) -> dict[str, Did]:
    """What was done above each query's Shed, and what came to it and stayed."""
    whose = {(lane_id, key): query for lane_id, lane in revision.lanes.items() for key, query in _vertices(lane)}
    busy, rows, kept = Counter[str](), Counter[str](), Counter[str]()
    for lane_id, key, _, work in epoch.measured.work:
        if (query := whose.get((lane_id, key))) is not None:
            busy[query] += work.busy_ns
    for query, _, seen in epoch.measured.seen:
        rows[query] += seen.rows
        kept[query] += seen.kept
    return {query: (busy[query] / 1e9, rows[query], kept[query]) for query in set(whose.values())}


def _vertices(lane: Lane) -> Iterator[tuple[str, str]]:
    """The vertices above a Shed by key, each with the query: nobody shares them."""
    flow = lane.flow
    sheds = {at: vertex.operator.query for at, vertex in enumerate(flow.vertices) if isinstance(vertex.operator, Shed)}
    for at, key in enumerate(flow.keys) if sheds else ():
        for below in flow.below[at] & sheds.keys() - {at}:
            yield key, sheds[below]
