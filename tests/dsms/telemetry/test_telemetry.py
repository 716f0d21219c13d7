"""Measurements are exported to Prometheus and OpenTelemetry, with the documented names and attributes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from dsms.coordinator.http.measured_calls import MeasuredCalls
from dsms.introspection.entities import Queue, Report
from dsms.introspection.operator_metrics import Operator
from dsms.measurements.work import Work
from dsms.runtime.epoch.epoch import Epoch, EpochMeasurements, UnpublishedChanges
from dsms.runtime.epoch.step_time import StepTime
from dsms.runtime.lanes.manifest import Manifest
from dsms.telemetry import instruments
from dsms.telemetry.coordinator_metrics import observe_states
from dsms.telemetry.executor_metrics import EpochMetrics, observe_reports
from dsms.telemetry.telemetry import Telemetry
from operators.core.errors import ExternalError

OPERATIONS = Path(__file__).parents[3] / "docs" / "operations.md"
STEPS = (StepTime("compute", 10.0, 11.0), StepTime("publish", 11.5, 12.0))
EPOCH = Epoch(
    Manifest(epoch=3, targets=2), {}, (UnpublishedChanges(pl.DataFrame({"key": [1, 2]}), {}),), (), {},
    measured=EpochMeasurements(records=40, behind={"a": 5, "b": 2}),
)  # fmt: skip
OPERATOR = Operator(
    id="0-a-1", fragment="0", lane="a", operator="Join", stage=1, queries=("q",), rows_in=(3, 4), rows_out=5,
    busy_seconds=0.5, state_bytes=70,
)  # fmt: skip
REPORT = Report(
    executor="e", fragment="0", at=0.0, operators=(OPERATOR,),
    queues=(Queue(id="0-q", fragment="0", lane="a", queries=("q",), stage=0, rows=9),),
)  # fmt: skip
REQUESTS = "http_server_request_duration_seconds"
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def telemetry(spans: InMemorySpanExporter) -> Telemetry:
    return Telemetry("dsms-test", "one", {}, spans=spans)


def samples(telemetry: Telemetry) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """All samples by name and labels, read by Prometheus' own parser."""
    families = text_string_to_metric_families(telemetry.prometheus().decode())
    scope = ("otel_scope_name", "otel_scope_version", "otel_scope_schema_url")
    return {
        (
            sample.name,
            frozenset((name, value) for name, value in sample.labels.items() if name not in scope),
        ): sample.value
        for family in families
        for sample in family.samples
    }


def value(telemetry: Telemetry, name: str, **labels: str) -> float:
    return samples(telemetry)[name, frozenset(labels.items())]


def test_an_epoch_is_counted_and_timed(telemetry) -> None:
    metrics = EpochMetrics(telemetry)
    metrics.committed("0", EPOCH, STEPS)
    metrics.committed("0", replace(EPOCH, measured=EpochMeasurements(records=2, behind={"a": 3})), STEPS)
    observe_reports(telemetry, lambda: [REPORT], {**metrics.behind, "moved": 9})
    assert value(telemetry, "dsms_records_read_total", fragment="0") == 42
    assert value(telemetry, "dsms_results_written_total", fragment="0") == 4
    assert value(telemetry, "dsms_epochs_total", fragment="0") == 2
    assert value(telemetry, "dsms_records_behind", fragment="0") == 3
    assert ("dsms_records_behind", frozenset({("fragment", "moved")})) not in samples(telemetry)
    assert value(telemetry, "dsms_epoch_duration_seconds_bucket", fragment="0", le="2.5") == 2
    assert value(telemetry, "dsms_epoch_duration_seconds_bucket", fragment="0", le="1.0") == 0
    assert value(telemetry, "dsms_epoch_duration_seconds_sum", fragment="0") == 4.0
    assert value(telemetry, "dsms_epoch_step_duration_seconds_sum", fragment="0", step="publish") == 1.0


def test_the_steps_of_an_epoch_are_spans_within_one(telemetry, spans) -> None:
    EpochMetrics(telemetry).committed("0", EPOCH, STEPS)
    telemetry.close()
    ended = {span.name: span for span in spans.get_finished_spans()}
    assert set(ended) == {"dsms.epoch", "dsms.epoch.compute", "dsms.epoch.publish"}
    whole = ended["dsms.epoch"]
    assert whole.attributes == {"dsms.fragment": "0", "dsms.epoch": 3, "dsms.records": 40, "dsms.changes": 2}
    assert whole.end_time - whole.start_time == pytest.approx(2e9, abs=1e3)
    for step in STEPS:
        span = ended[f"dsms.epoch.{step.name}"]
        assert span.parent.span_id == whole.context.span_id
        assert span.end_time - span.start_time == pytest.approx(step.seconds * 1e9, abs=1e3)


def test_operators_have_spans_within_the_step_that_ran_them(telemetry, spans) -> None:
    work = (
        ("q", "Join", 0, Work((3, 4), 1, 10**8)), ("q", "Join", 1, Work((1,), 2, 2 * 10**8)),
        ("r", "Sort", 0, Work((9,), 9, 5 * 10**9)),
    )  # fmt: skip
    EpochMetrics(telemetry).committed("0", replace(EPOCH, measured=EpochMeasurements(work=work)), STEPS)
    telemetry.close()
    ended = spans.get_finished_spans()
    (compute,) = [span for span in ended if span.name == "dsms.epoch.compute"]
    operators = {span.attributes["dsms.operator"]: span for span in ended if span.name == "dsms.operator"}
    assert {span.parent.span_id for span in operators.values()} == {compute.context.span_id}
    join, sort = operators["Join"], operators["Sort"]
    assert (join.attributes["dsms.rows.in"], join.attributes["dsms.rows.out"]) == (8, 3)
    assert join.end_time - join.start_time == pytest.approx(3e8, abs=1e3)
    assert sort.end_time == compute.end_time  # the sort ran on several cores


def test_reports_are_read_when_they_are_exported(telemetry) -> None:
    reports = [REPORT]
    observe_reports(telemetry, lambda: reports, {})
    of = {"fragment": "0", "operator": "0-a-1", "kind": "Join"}
    assert value(telemetry, "dsms_operator_rows_in_total", **of) == 7
    assert value(telemetry, "dsms_operator_rows_out_total", **of) == 5
    assert value(telemetry, "dsms_operator_busy_seconds_total", **of) == 0.5
    assert value(telemetry, "dsms_operator_state_bytes", **of) == 70
    assert value(telemetry, "dsms_queue_rows", fragment="0", queue="0-q", stage="0") == 9
    reports.clear()
    assert not any(name.startswith("dsms_operator_state") for name, _ in samples(telemetry))


def test_the_states_of_the_cluster(telemetry) -> None:
    status = {"executors": {"a": {"state": "running"}, "b": {"state": "running"}}, "lag": {"q": 7, "new": None}}
    observe_states(telemetry, lambda: [{"state": "running"}, {"state": "failed"}, {"state": "failed"}], lambda: status)
    assert value(telemetry, "dsms_queries", state="failed") == 2
    assert value(telemetry, "dsms_executors", state="running") == 2
    assert {key for key in samples(telemetry) if key[0] == "dsms_query_behind"} == {
        ("dsms_query_behind", frozenset({("query", "q")}))
    }


def test_unavailable_measurements_are_omitted(telemetry) -> None:
    def away() -> list[dict[str, object]]:
        raise ExternalError("redis is away")

    observe_states(telemetry, away, lambda: {"executors": {}, "lag": {"q": 7}})
    assert value(telemetry, "dsms_query_behind", query="q") == 7
    assert not any(name == "dsms_queries" for name, _ in samples(telemetry))


def test_calls_are_timed_by_route_and_traced_within_the_callers_trace(telemetry, spans) -> None:
    app = Starlette(routes=[Route("/things/{name}", lambda _: PlainTextResponse("x", 201)), Route("/broken", broken)])
    client = TestClient(MeasuredCalls(app, telemetry), raise_server_exceptions=False)
    client.get("/things/a", headers={"traceparent": f"00-{TRACE}-{PARENT}-01"})
    client.get("/broken")
    timed = [
        dict(labels) for name, labels in samples(telemetry) if name.startswith("http_") and name.endswith("_count")
    ]
    assert {labels["http_response_status_code"] for labels in timed} == {"201", "500"}
    telemetry.close()
    ok, failed = spans.get_finished_spans()
    assert f"{ok.context.trace_id:032x}" == TRACE
    assert f"{ok.parent.span_id:016x}" == PARENT
    assert not failed.status.is_ok


async def broken(_: object) -> PlainTextResponse:
    raise ValueError


def test_prometheus_has_the_names_that_are_documented(telemetry) -> None:
    metrics = EpochMetrics(telemetry)
    metrics.committed("0", EPOCH, STEPS)
    observe_reports(telemetry, lambda: [REPORT], metrics.behind)
    observe_states(
        telemetry,
        lambda: [{"state": "running"}],
        lambda: {"executors": {"a": {"state": "idle"}}, "lag": {"q": 1}},
        lambda: [{"state": "failed"}],
    )
    telemetry.histogram(instruments.REQUEST_DURATION).record(1.0)
    found = {name.removesuffix("_count") for name, _ in samples(telemetry)}
    assert {each.in_prometheus for each in (*instruments.EXECUTOR, *instruments.COORDINATOR)} <= found


@pytest.mark.parametrize("who", ["executors", "coordinator"])
def test_the_documentation_lists_all(who: str, request: pytest.FixtureRequest) -> None:
    """`--update-golden` rewrites the tables."""
    listed = instruments.EXECUTOR if who == "executors" else instruments.COORDINATOR
    head = f"| metric, {who} | labels | meaning | what to do |\n|---|---|---|---|\n"
    text, lines = OPERATIONS.read_text(), [_documented(each) for each in listed]
    _, table, behind = text.partition(head)
    documented = behind.partition("\n\n")[0]
    if request.config.getoption("--update-golden"):
        OPERATIONS.write_text(text.replace(table + documented, table + "\n".join(lines)))
        return
    assert documented.split("\n") == lines


def _documented(each: instruments.Instrument) -> str:
    labels = ", ".join(name.replace(".", "_") for name in each.attributes)
    return f"| `{each.in_prometheus}` | {labels} | {each.meaning} | {each.advice} |"
