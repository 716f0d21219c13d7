"""The metrics of an executor: its epochs, and the operators and queues that it reports on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from dsms.introspection.entities import Report
from dsms.introspection.operator_metrics import Operator
from dsms.measurements.work import VertexWork
from dsms.runtime.epoch.epoch import Epoch
from dsms.runtime.epoch.step_time import StepTime
from dsms.telemetry import instruments
from dsms.telemetry.telemetry import Attributes, StepPart, Telemetry

#: The most operators of an epoch that get a span.
_MAX_OPERATORS = 20
Reports = Callable[[], Iterable[Report]]
_Values = Iterator[tuple[float, Attributes]]


class EpochMetrics:
    """Counts and times the epochs of the fragments of an executor, and traces them."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._read = telemetry.counter(instruments.RECORDS_READ)
        self._written = telemetry.counter(instruments.RESULTS_WRITTEN)
        self._dead = telemetry.counter(instruments.DEAD_LETTERS)
        self._epochs = telemetry.counter(instruments.EPOCHS)
        self._durations = telemetry.histogram(instruments.EPOCH_DURATION)
        self._steps = telemetry.histogram(instruments.STEP_DURATION)
        #: The waiting records, by fragment. Fragments that no longer run here keep their last number.
        self.behind: dict[str, int] = {}

    def committed(self, fragment: str, epoch: Epoch, steps: Sequence[StepTime]) -> None:
        """Records the metrics and the spans of a committed epoch."""
        attributes = {"fragment": fragment}
        changes = sum(unpublished.changes.height for unpublished in epoch.unpublished)
        self._read.add(epoch.measured.records, attributes)
        self._written.add(changes, attributes)
        self._dead.add(len(epoch.dead), attributes)
        self._epochs.add(1, attributes)
        self.behind[fragment] = sum(epoch.measured.behind.values())
        for step in steps:
            self._steps.record(step.seconds, {**attributes, "step": step.name})
        if steps:
            self._durations.record(max(step.end for step in steps) - min(step.start for step in steps), attributes)
        sizes = {"dsms.epoch": epoch.manifest.epoch, "dsms.records": epoch.measured.records, "dsms.changes": changes}
        parts = {"compute": busiest(epoch.measured.work)} if self._telemetry.traces else {}
        self._telemetry.steps("dsms.epoch", {"dsms.fragment": fragment, **sizes}, steps, parts)


def busiest(work: Iterable[VertexWork]) -> list[StepPart]:
    """The operators that took the most time in an epoch, summed over all cores, the busiest first.

    >>> from dsms.measurements.work import Work
    >>> done = [("q", "Join", 0, Work((3,), 1, 10**9)), ("q", "Join", 1, Work((2,), 4, 10**9))]
    >>> [(part.attributes["dsms.rows.in"], part.attributes["dsms.rows.out"], part.seconds) for part in busiest(done)]
    [(5, 5, 2.0)]
    """
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for lane, operator, _, run in work:
        figures = sum(run.rows_in), run.rows_out, run.busy_ns
        sums[lane, operator] = [total + more for total, more in zip(sums[lane, operator], figures, strict=True)]
    parts = [
        StepPart(
            "dsms.operator",
            {"dsms.lane": lane, "dsms.operator": name, "dsms.rows.in": rows_in, "dsms.rows.out": rows_out},
            busy / 1e9,
        )
        for (lane, name), (rows_in, rows_out, busy) in sums.items()
    ]
    return sorted(parts, key=lambda part: -part.seconds)[:_MAX_OPERATORS]


def observe_reports(telemetry: Telemetry, reports: Reports, behind: Mapping[str, int]) -> None:
    """Exports the last reports of an executor on its operators and queues, and the waiting records of its fragments
    (`behind`).
    """

    def of_operators(value: Callable[[Operator], float]) -> Callable[[], _Values]:
        return lambda: (
            (value(operator), {"fragment": report.fragment, "operator": operator.id, "kind": operator.operator})
            for report in reports()
            for operator in report.operators
        )

    def of_queues() -> _Values:
        return (
            (queue.rows, {"fragment": report.fragment, "queue": queue.id, "stage": queue.stage})
            for report in reports()
            for queue in report.queues
            if queue.rows is not None
        )

    def of_fragments() -> _Values:
        running = {report.fragment for report in reports()}
        return ((records, {"fragment": name}) for name, records in list(behind.items()) if name in running)

    telemetry.observe(instruments.BEHIND, of_fragments)
    telemetry.observe(instruments.OPERATOR_ROWS_IN, of_operators(lambda operator: sum(operator.rows_in)))
    telemetry.observe(instruments.OPERATOR_ROWS_OUT, of_operators(lambda operator: operator.rows_out))
    telemetry.observe(instruments.OPERATOR_BUSY, of_operators(lambda operator: operator.busy_seconds))
    telemetry.observe(instruments.OPERATOR_STATE, of_operators(lambda operator: operator.state_bytes))
    telemetry.observe(instruments.QUEUE_ROWS, of_queues)
