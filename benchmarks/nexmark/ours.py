"""A question to our system: from the statement to the last committed result, which is then compared with DuckDB's."""

import time
from dataclasses import dataclass, replace

from benchmarks.cluster import Cluster, report
from benchmarks.nexmark.answers import decoded, final_values
from benchmarks.nexmark.generator import Events
from benchmarks.nexmark.load import final_ms, load_tagged
from benchmarks.nexmark.questions import SECONDS, Question
from benchmarks.nexmark.reference import Reference, verify
from benchmarks.nexmark.streams import STREAMS
from benchmarks.progress import FrontierWatch
from benchmarks.throughput import Run, until
from benchmarks.usage import Usage
from connectors.kafka.registry import schema_lookup
from operators.errors import DsmsError

OPTIONS = 'FORMAT AVRO TIMESTAMP BY "dateTime" TAGGED NONE IDLE AFTER 1 SECOND'
#: So few events that a run over them is all start-up; every partition has some of every kind.
FEW = Events(400)
_PREFIX = 5


@dataclass(frozen=True)
class Input:
    """Events that were loaded, and the ending of the names of the streams over them."""

    events: Events
    reference: Reference
    suffix: str = ""

    def read_by(self, question: Question) -> int:
        """How many records the question reads."""
        return sum(self.reference.height(stream) for stream in question.streams)


def prepare(cluster: Cluster, all_: Input, few: Input) -> None:
    """Loads both inputs and declares the streams over them."""
    cluster.api.execute(SECONDS)
    for one in (all_, few):
        size = load_tagged(cluster.kafka, cluster.url, one.events, one.suffix)
        for stream in STREAMS.values():
            cluster.api.execute(stream.declaration(one.suffix + stream.topic, one.suffix, OPTIONS))
        report(f"loaded {one.events.count:,} events, {size / 1e6:,.0f} MB")


def measure(
    cluster: Cluster, question: Question, inputs: tuple[Input, Input], synchronised: bool, runs: int, limit_s: float
) -> Run:
    """The best of some verified runs over the first input, with the time of a run over the few events of the second."""
    whole, few = inputs
    idle = min(_run(cluster, question, few, synchronised, limit_s).seconds for _ in range(2))
    done = [_told(cluster, question, whole, synchronised, limit_s) for _ in range(runs)]
    return replace(min(done, key=lambda run: run.seconds), empty_s=idle)


def _told(cluster: Cluster, question: Question, given: Input, synchronised: bool, limit_s: float) -> Run:
    run = _run(cluster, question, given, synchronised, limit_s)
    report(
        f"{question.name}{', each second' if synchronised else ''}: {run.seconds:.2f} s, {run.epochs} epochs, "
        f"{run.cpu_s:.1f} CPU s (Kafka and Redis {run.services_cpu_s:.1f}), {run.peak_mb:,.0f} MB; the result is right"
    )
    return run


def _run(cluster: Cluster, question: Question, given: Input, synchronised: bool, limit_s: float) -> Run:
    """One run; the query is dropped whatever happens."""
    name = f"{question.name}_{time.monotonic_ns()}"
    watch = FrontierWatch(cluster.kafka, cluster.state.cluster, f"dsms.{name}")
    try:
        with Usage(cluster.pids(ours=True)) as ours, Usage(cluster.pids(ours=False)) as services:
            started = time.monotonic()
            text = question.over(given.suffix, synchronised)
            cluster.api.execute(f"CREATE QUERY {name} WITH (FORMAT = AVRO) AS {text}")
            moves = until(watch, cluster, final_ms(given.events), limit_s)
        _verify(cluster, question, given, f"dsms.{name}")
    finally:
        watch.close()
        _drop(cluster, name)
    seconds = moves[-1].seen_s - started
    return Run(seconds, len(moves), ours.cpu_s, ours.peak_mb, services.cpu_s, services.peak_mb)


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
