"""A query on this system, measured from its statement to its last committed result. The result is compared with
DuckDB's."""

import time
from dataclasses import dataclass

from benchmarks.cluster import Cluster, report
from benchmarks.nexmark.answers import decoded, final_values
from benchmarks.nexmark.generator import Events
from benchmarks.nexmark.load import final_ms, load_tagged
from benchmarks.nexmark.measured import Cost, Measured, Others, least
from benchmarks.nexmark.questions import QUESTIONS, SECONDS, Question
from benchmarks.nexmark.reference import Reference, verify
from benchmarks.nexmark.streams import STREAMS
from benchmarks.progress import FrontierWatch
from benchmarks.usage import Usage
from connectors.kafka.schema_registry.registry import schema_lookup
from operators.core.errors import DsmsError, ExternalError

OPTIONS = 'FORMAT AVRO TIMESTAMP BY "dateTime" TAGGED NONE IDLE AFTER 1 SECOND'
#: So few events that a run over them takes only the start-up time; each partition has some of each kind.
FEW = Events(400)
_PREFIX = 5
#: A run that takes at most the limit divided by this is short, and another run in the warm process follows it.
_SHORT = 2
#: The first query, which runs so that all processes have started, and its time limit.
_FIRST, _FIRST_S = QUESTIONS["q2"], 300.0
#: How often the first query runs on a new executor.
_WARM_UPS = 5
_WAIT_S = 2.0


@dataclass(frozen=True)
class Input:
    """Loaded events, the expected answers over them, and the suffix of the names of their streams."""

    events: Events
    reference: Reference
    suffix: str = ""

    def read_by(self, question: Question) -> int:
        """The number of records that the query reads."""
        return sum(self.reference.height(stream) for stream in question.streams)


@dataclass(frozen=True)
class Effort:
    """At most `runs` runs, none longer than `limit_s`. A further run follows only if all earlier ones were short."""

    runs: int
    limit_s: float

    def enough(self, done: list[Cost]) -> bool:
        """Whether no further run follows.

        >>> Effort(2, 60).enough([]), Effort(2, 60).enough([Cost(31.0, 0, 0, 0)])
        (False, True)
        """
        return len(done) >= self.runs or any(_SHORT * cost.seconds > self.limit_s for cost in done)


def prepare(cluster: Cluster, inputs: tuple[Input, Input]) -> None:
    """Loads both inputs, declares their streams, and runs the first query."""
    cluster.api.execute(SECONDS)
    for given in inputs:
        size = load_tagged(cluster.kafka, cluster.url, given.events, given.suffix)
        for stream in STREAMS.values():
            cluster.api.execute(stream.declaration(given.suffix + stream.topic, given.suffix, OPTIONS))
        report(f"loaded {given.events.count:,} events, {size / 1e6:,.0f} MB")
    _run(cluster, _FIRST, inputs[1], synchronised=True, limit_s=_FIRST_S)


def begin_anew(cluster: Cluster, few: Input) -> None:
    """Starts a new executor, because the peer has a new process for each query, and warms it up with another query."""
    cluster.renew_executor()
    for _ in range(_WARM_UPS):
        _run(cluster, _FIRST, few, synchronised=True, limit_s=_FIRST_S)


def measure(
    cluster: Cluster, question: Question, inputs: tuple[Input, Input], synchronised: bool, effort: Effort
) -> Measured:
    """Measures the best of several verified runs over the first input, and a run over the few events of the second."""
    whole, few = inputs
    start_up = _run(cluster, question, few, synchronised, effort.limit_s)
    done: list[Cost] = []
    while not effort.enough(done):
        done.append(_run(cluster, question, whole, synchronised, effort.limit_s))
    best = least(done)
    report(
        f"{question.name}, {'each second' if synchronised else 'every instant'}: {best.seconds:.2f} s "
        f"(a few events {start_up.seconds:.2f}), {best.cpu_s:.1f} CPU s, {best.peak_mb:,.0f} MB, "
        f"others {best.others:.2f} cores; the result is right"
    )
    return Measured(best, start_up)


def _run(cluster: Cluster, question: Question, given: Input, synchronised: bool, limit_s: float) -> Cost:
    """Measures one verified run. The query is dropped in any case."""
    name = f"{question.name}_{time.monotonic_ns()}"
    watch = FrontierWatch(cluster.kafka, cluster.state.cluster, f"dsms.{name}")
    try:
        with (
            Others([*cluster.pids(ours=True), *cluster.pids(ours=False)]) as others,
            Usage(cluster.pids(ours=True)) as usage,
        ):
            started = time.monotonic()
            text = question.over(given.suffix, synchronised)
            cluster.api.execute(f"CREATE QUERY {name} WITH (FORMAT = AVRO) AS {text}")
            ended = _end(watch, cluster, given.events, limit_s)
        _verify(cluster, question, given, f"dsms.{name}")
    finally:
        watch.close()
        _drop(cluster, name)
    return Cost(ended - started, usage.cpu_s, usage.peak_mb, others.cores, others.loop_s)


def _end(watch: FrontierWatch, cluster: Cluster, events: Events, limit_s: float) -> float:
    """Waits until all results are final and returns that time. The error after `limit_s` says how much was final."""
    deadline, reached = time.monotonic() + limit_s, events.timeline.first_ms
    while time.monotonic() < deadline:
        moved = watch.next(_WAIT_S)
        if moved is None and (failure := cluster.failure()):
            raise ExternalError(f"failed: {failure}", retryable=False)
        if moved is not None and moved.frontier >= final_ms(events):
            return moved.seen_s
        reached = reached if moved is None else max(reached, moved.frontier)
    part = (reached - events.timeline.first_ms) / (events.end_ms - events.timeline.first_ms)
    raise ExternalError(f"not ended after {limit_s:g} s; {min(part, 1):.0%} of the events' time was final")


def _drop(cluster: Cluster, name: str) -> None:
    try:
        cluster.api.execute(f"DROP QUERY IF EXISTS {name}")
    except DsmsError as error:
        report(f"{name} could not be dropped: {error}")


def _verify(cluster: Cluster, question: Question, given: Input, topic: str) -> None:
    wanted = given.reference.answer(question)
    values = final_values(cluster.kafka, topic)
    writer = schema_lookup(cluster.url)(int.from_bytes(values[0][1:_PREFIX], "big")) if values else {}
    verify(decoded(values, writer, _PREFIX, wanted), wanted, question.name)
