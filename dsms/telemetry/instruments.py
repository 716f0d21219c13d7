"""The metrics that processes export, with OpenTelemetry's names. The table in docs/operations.md derives from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True)
class Instrument:
    """A metric: its name, kind, unit and attributes, its meaning, and what to do if it grows."""

    name: str
    kind: Kind
    unit: str
    attributes: tuple[str, ...]
    meaning: str
    advice: str = ""

    @property
    def in_prometheus(self) -> str:
        """The name of the metric in Prometheus.

        >>> Instrument("dsms.commit.duration", "histogram", "s", (), "").in_prometheus
        'dsms_commit_duration_seconds'
        >>> Instrument("dsms.records.read", "counter", "{record}", (), "").in_prometheus
        'dsms_records_read_total'
        """
        unit = {"s": "_seconds", "By": "_bytes"}.get(self.unit, "")
        return self.name.replace(".", "_") + unit + ("_total" if self.kind == "counter" else "")


_FRAGMENT, _OPERATOR = ("fragment",), ("fragment", "operator", "kind")

RECORDS_READ = Instrument("dsms.records.read", "counter", "{record}", _FRAGMENT, "records read from source topics")
RESULTS_WRITTEN = Instrument("dsms.results.written", "counter", "{record}", _FRAGMENT, "changes of results published")
DEAD_LETTERS = Instrument(
    "dsms.dead_letters",
    "counter",
    "{record}",
    _FRAGMENT,
    "records refused, with reasons in the dead-letter topics",
    "`dsms dead-letters SOURCE` shows the reasons",
)
EPOCHS = Instrument(
    "dsms.epochs",
    "counter",
    "{epoch}",
    _FRAGMENT,
    "epochs committed",
    "if it does not grow: see the log of the executor",
)
EPOCH_DURATION = Instrument(
    "dsms.epoch.duration",
    "histogram",
    "s",
    _FRAGMENT,
    "time from a batch's start to its epoch's commit",
    "results are delayed by about this time: lower `DSMS_BATCH_SECONDS`",
)
STEP_DURATION = Instrument(
    "dsms.epoch.step.duration",
    "histogram",
    "s",
    ("fragment", "step"),
    "duration of a step, as in traces",
    "`publish`: Kafka; `flush`: the disk; `manifest`, `clean`: Redis or the disk",
)
BEHIND = Instrument(
    "dsms.records.behind",
    "gauge",
    "{record}",
    _FRAGMENT,
    "records left to read in Kafka after the last batch",
    "if it grows for minutes: add executors, or let queries shed load",
)
OPERATOR_ROWS_IN = Instrument("dsms.operator.rows.in", "counter", "{row}", _OPERATOR, "rows into an operator")
OPERATOR_ROWS_OUT = Instrument("dsms.operator.rows.out", "counter", "{row}", _OPERATOR, "rows out of an operator")
OPERATOR_BUSY = Instrument(
    "dsms.operator.busy",
    "counter",
    "s",
    _OPERATOR,
    "time within an operator, summed over all cores",
    "EXPLAIN ANALYZE shows which queries use the operator",
)
OPERATOR_STATE = Instrument(
    "dsms.operator.state",
    "gauge",
    "By",
    _OPERATOR,
    "state of an operator, as Polars estimates it",
    "if it grows without bound: add a window or a constraint",
)
QUEUE_ROWS = Instrument(
    "dsms.queue.rows", "gauge", "{row}", ("fragment", "queue", "stage"), "rows or records that wait for a stage"
)
REQUEST_DURATION = Instrument(
    "http.server.request.duration",
    "histogram",
    "s",
    ("http.request.method", "http.route", "http.response.status_code"),
    "duration of a call",
    "status 503: Kafka or Redis is unavailable",
)
QUERIES = Instrument(
    "dsms.queries",
    "gauge",
    "{query}",
    ("state",),
    "queries and views by state",
    "if `failed` is above 0: SHOW QUERIES shows the reasons",
)
QUERY_BEHIND = Instrument(
    "dsms.query.behind",
    "gauge",
    "{record}",
    ("query",),
    "records of its sources that a query has not read",
    "if it grows for minutes: add executors; autoscalers may use it",
)
SINKS = Instrument(
    "dsms.sinks",
    "gauge",
    "{sink}",
    ("state",),
    "sinks of the catalog by state",
    "if `failed` or `retrying` stays above 0: SHOW SINKS shows the reasons",
)
EXECUTORS = Instrument(
    "dsms.executors",
    "gauge",
    "{executor}",
    ("state",),
    "executors by state",
    "if there are fewer than expected: see their logs",
)

#: The metrics of executors, and those of the coordinator.
EXECUTOR = (
    RECORDS_READ,
    RESULTS_WRITTEN,
    DEAD_LETTERS,
    EPOCHS,
    EPOCH_DURATION,
    STEP_DURATION,
    BEHIND,
    OPERATOR_ROWS_IN,
    OPERATOR_ROWS_OUT,
    OPERATOR_BUSY,
    OPERATOR_STATE,
    QUEUE_ROWS,
)
COORDINATOR = (REQUEST_DURATION, QUERIES, QUERY_BEHIND, EXECUTORS, SINKS)
