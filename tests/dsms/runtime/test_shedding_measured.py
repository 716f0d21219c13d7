"""The measurements of epochs and the rates that follow from them, with simulated epochs. The time of an epoch has a
fixed part and a part for each record and query."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from statistics import median

from dsms.measurements.work import Work
from dsms.planner.physical.dataflow import Dataflow
from dsms.planner.physical.fragment_plan import plan_fragment
from dsms.runtime.epoch.epoch import Epoch, EpochMeasurements
from dsms.runtime.lanes.manifest import Manifest
from dsms.runtime.lanes.revision import Revision, revised
from dsms.runtime.shedding.load_shedding import Shedding
from dsms.runtime.shedding.settings import new_settings
from dsms.shedding.rates import SheddingDecision
from operators.streams.shed import Shed, ShedStatistics, Spread
from tests.support.fake_environment import FakeEnvironment, apply_all

DEADLINE_S, FIXED_S, BASE_S, TARGETS = 4.0, 0.6, 4e-6, 2
COSTS = {"Dear": 40e-6, "Cheap": 6e-6}
CAPACITY = 1 / (BASE_S + sum(COSTS.values()))
SQL = "REGISTER SOURCE T (v INT) FROM t; CREATE STREAM A OVER T KEY NULL;" + "".join(
    f"CREATE QUERY {name} WITH (max_error = 0.2, deadline = '4 s', weight = {weight}) AS SELECT STREAMED window_end, "
    f"SUM(v) AS s{name} FROM TUMBLE(TABLE A, DESCRIPTOR(TS), 2000) GROUP BY window_end EMIT FINAL;"
    for name, weight in (("Dear", 1), ("Cheap", 8))
)
#: The expensive query has a lookup, and its groups are columns of the relation.
LOOKUP_SQL = "REGISTER SOURCE U (v INT, r VARCHAR) FROM u; CREATE STREAM K OVER U KEY v;" + SQL.replace(
    "DESCRIPTOR(TS), 2000) GROUP BY window_end EMIT FINAL", "DESCRIPTOR(TS), 2000) GROUP BY window_end"
).replace("window_end, SUM(v) AS sDear", "window_end, r, SUM(W.v) AS sDear").replace(
    "2000) GROUP BY window_end", "2000) W JOIN K ON W.v = K.v GROUP BY window_end, r", 1
)


#: The cheap query is not estimated: at least half of its input is kept.
MIXED = SQL[: SQL.index("CREATE QUERY Cheap")] + (
    "CREATE QUERY Cheap WITH (max_loss = 0.5, deadline = '4 s') AS SELECT STREAMED DISTINCT v FROM A [Range 2 Seconds]"
)


def revision(sql: str = SQL) -> Revision:
    catalog, _ = apply_all(sql, environment=FakeEnvironment({"t": {0: 0}, "u": {0: 0}}))
    return revised(plan_fragment(catalog, TARGETS), Manifest(), set())


@dataclass
class Simulated:
    """Simulated batches. `lags` are the lags of the published frontier just before each batch is published."""

    #: The busy seconds of each vertex in each epoch, and of the expensive query in each epoch with records.
    each_s: float = 0.0
    dear_s: float = 0.0
    #: The factor by which the machine is slow.
    slow: float = 1.0
    #: The sums of the values of the measured groups, relative to their rows.
    means: tuple[float, ...] = (1.0,)
    #: The greatest relative deviation of an epoch's time.
    noise: float = 0.0
    random: Random = field(default_factory=lambda: Random(7))
    at: Revision = field(default_factory=revision)
    shedding: Shedding = field(default_factory=Shedding)
    now: float = 100.0
    came: float = 0.0
    read: int = 0
    arrived: list[tuple[float, float]] = field(default_factory=list)
    lags: list[float] = field(default_factory=list)
    rates: list[dict[str, float]] = field(default_factory=list)
    #: The parts of the rows that have each value of the preferred column, by the value's CRC-32.
    values: dict[int, float] = field(default_factory=dict)
    #: The last logged rates.
    logged: dict[str, float] = field(default_factory=dict)

    def run(self, rate: float, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            self._epoch(rate)

    def restart(self) -> None:
        """The process ends, and another one goes on from the metadata and from the log of rates."""
        self.logged = dict(self.shedding.decision.rates)
        self.shedding = replace(self.shedding, decision=SheddingDecision({}))

    def _epoch(self, rate: float) -> None:
        waiting = int(self.came) - self.read
        batch = min(waiting, self.shedding.batch_records or 400_000)
        wanted = {**self.logged, **self.shedding.decision.rates}
        rates = {name: wanted.get(self._id(name), 1.0) for name in COSTS}
        took = FIXED_S + batch * (BASE_S + sum(COSTS[name] * rates[name] for name in COSTS))
        took += self.each_s * len(self._flow.vertices) + (self.dear_s if batch else 0.0)
        took *= self.slow * self.random.uniform(1 - self.noise, 1 + self.noise)
        oldest = next((at for at, upto in self.arrived if upto >= self.read), self.now)
        self.arrived.append((self.now + took, self.came + rate * took))
        self.now, self.came, self.read = self.now + took, self.came + rate * took, self.read + batch
        self.lags.append(self.now - oldest)
        self.rates.append(rates)
        epoch = self._told(batch, waiting - batch, rates)
        self.shedding = self.shedding.after(epoch, self.at, self.now, took, self.logged)

    @property
    def _flow(self) -> Dataflow:
        return next(iter(self.at.lanes.values())).flow

    def _id(self, name: str) -> str:
        return next(query for query, planned in self.at.plan.queries.items() if planned.name == name)

    def _told(self, batch: int, unread: int, rates: dict[str, float]) -> Epoch:
        """The epoch in the form of an executor's measurements. Both targets are busy all the time except for the fixed
        part."""
        (lane_id, lane), work = next(iter(self.at.lanes.items())), []
        flow, names = lane.flow, {self._id(name): name for name in COSTS}
        for at, vertex in enumerate(flow.vertices):
            busy = BASE_S * batch if vertex.leaf is not None else 0.0
            for query, name in names.items():
                output = next(candidate for candidate in lane.outputs if candidate.id == query)
                fixed = self.dear_s if name == "Dear" and batch else 0.0
                busy += COSTS[name] * rates[name] * batch + fixed if output.vertex == at else 0.0
            busy += self.each_s
            work.append((lane_id, flow.keys[at], 0, Work((batch,), batch, int(busy * self.slow * TARGETS * 1e9))))
        assert sum(isinstance(vertex.operator, Shed) for vertex in flow.vertices) == len(COSTS)
        span = int(self.now * 1000)
        seen = tuple(
            (
                query,
                0,
                ShedStatistics(
                    batch,
                    int(batch * rates[name]),
                    span,
                    span + max(int(batch / 20), 1),
                    self._groups(batch / len(self.means)),
                    counts={value: part * batch for value, part in self.values.items()},
                ),
            )
            for query, name in names.items()
            if batch
        )
        measured = EpochMeasurements(batch, work=tuple(work), behind={lane_id: unread}, shed_input=seen)
        return Epoch(self.at.manifest, {}, (), (), {}, measured=measured)

    def _groups(self, rows: float) -> dict[int, Spread]:
        return {at: Spread(rows, ((rows * mean, rows * 3.0),)) for at, mean in enumerate(self.means)}


def test_fixed_time_of_short_batches_causes_no_shedding() -> None:
    calm = Simulated()
    calm.run(CAPACITY / 3, 30)
    assert all(rate == 1.0 for rates in calm.rates for rate in rates.values())


def test_slow_first_batches_cause_no_shedding() -> None:
    calm = Simulated(each_s=0.01)
    calm.run(300, 2)
    calm.run(CAPACITY / 3, 30)
    assert all(rate == 1.0 for rates in calm.rates for rate in rates.values())


def test_burst_is_shed_even_if_one_batch_could_hold_it() -> None:
    burst = Simulated()
    burst.run(CAPACITY / 3, 10)
    calm = len(burst.lags)
    burst.run(3 * CAPACITY, 60)
    assert max(burst.lags) <= DEADLINE_S
    shed = burst.rates[calm + 4 :]
    assert all(rates["Dear"] < rates["Cheap"] for rates in shed)
    after = len(burst.rates)
    burst.run(CAPACITY / 3, 20)
    assert max(burst.lags[after:]) <= DEADLINE_S
    assert burst.rates[-1] == {"Dear": 1.0, "Cheap": 1.0}


def test_a_part_and_estimates_are_shed_together() -> None:
    burst = Simulated(at=revision(MIXED))
    burst.run(CAPACITY / 3, 10)
    calm = len(burst.lags)
    burst.run(3 * CAPACITY, 60)
    assert max(burst.lags) <= DEADLINE_S
    assert all(0.5 <= rates["Cheap"] < 1 for rates in burst.rates[calm + 4 :])
    assert all(rates["Dear"] < rates["Cheap"] for rates in burst.rates[calm + 4 :])
    burst.run(CAPACITY / 3, 20)
    assert burst.rates[-1] == {"Dear": 1.0, "Cheap": 1.0}


def test_frequent_values_are_kept_first_and_follow_the_input() -> None:
    burst = Simulated(at=revision(MIXED + " WITH PREFERENCE DESC COUNT(v)"), values={1: 0.3, 2: 0.1, 3: 0.001})
    burst.run(CAPACITY / 3, 10)
    assert burst.shedding.preferred == {}
    burst.run(3 * CAPACITY, 30)
    query, chosen = burst._id("Cheap"), burst.shedding.wanted
    assert burst.shedding.preferred.keys() == {query}
    assert chosen[query].values == (1, 2, 3) and chosen[query].listed == 1.0
    assert chosen[query].fraction == burst.shedding.decision.rates[query]
    burst.values = {7: 0.4}
    burst.run(3 * CAPACITY, 60)
    assert 7 in burst.shedding.preferred[query].values
    burst.run(CAPACITY / 3, 20)
    assert burst.shedding.wanted[query] == 1.0


def test_cost_of_few_rows_does_not_increase_shedding_of_other_queries() -> None:
    burst = Simulated(dear_s=0.5, noise=0.1)
    burst.run(CAPACITY / 3, 20)
    assert all(rate == 1.0 for rates in burst.rates[-5:] for rate in rates.values())
    calm = len(burst.lags)
    burst.run(2 * CAPACITY, 60)
    assert median(rates["Cheap"] for rates in burst.rates[calm:]) >= 0.5
    assert max(burst.lags[calm + 5 :]) <= DEADLINE_S


def test_batches_use_their_time_soon_after_the_machine_became_quicker() -> None:
    always = Simulated()
    always.run(2 * CAPACITY, 30)
    burst = Simulated(slow=2.0)
    burst.run(2 * CAPACITY, 60)
    assert burst.rates[-1]["Cheap"] < 0.1
    burst.slow = 1.0
    burst.run(2 * CAPACITY, 12)
    assert all(burst.rates[-1][name] >= 0.9 * always.rates[-1][name] for name in COSTS)


def test_after_a_restart_rates_are_decided_as_if_there_had_been_none() -> None:
    whole, restarted = Simulated(), Simulated()
    for each in (whole, restarted):
        each.run(CAPACITY / 3, 10)
        each.run(3 * CAPACITY, 20)
    restarted.restart()
    for each in (whole, restarted):
        each.run(3 * CAPACITY, 20)
    assert restarted.rates == whole.rates
    assert min(whole.rates[-1].values()) < 1


def test_an_executor_that_has_not_decided_keeps_the_logged_rate() -> None:
    at = revision()
    (lane_id, lane), *_ = at.lanes.items()
    positions = {lane_id: at.manifest.lanes[lane_id].places}
    (place,), query, *_ = positions[lane_id], *sorted(lane.sheddable)
    known, floors = {query: {place: [(0, 0.5)]}}, {each: {} for each in lane.sheddable}
    assert new_settings(at.lanes, positions, {}, known, floors) == {}
    fresh = new_settings(at.lanes, positions, {query: 1.0}, known, floors)
    assert [(each, settings[place].setting) for each, settings in fresh.items()] == [(query, (0, 1.0))]


def test_input_of_a_lookup_is_shed_unless_the_sums_of_its_groups_could_cancel() -> None:
    """The other query has the same groups, but they are those of its result, so it is shed in both cases."""
    shed = Simulated(at=revision(LOOKUP_SQL), means=(1.0, 2.0))
    shed.run(CAPACITY / 3, 30)
    shed.run(CAPACITY * 2, 30)
    assert min(rates["Dear"] for rates in shed.rates) < 0.6
    kept = Simulated(at=revision(LOOKUP_SQL), means=(1.0, -2.0))
    kept.run(CAPACITY / 3, 30)
    kept.run(CAPACITY * 2, 30)
    assert min(rates["Dear"] for rates in kept.rates) == 1.0 > min(rates["Cheap"] for rates in kept.rates)
