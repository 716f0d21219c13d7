"""Metrics and traces of real services, read by Prometheus' parser and received by a collector over OTLP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.parser import text_string_to_metric_families

from dsms.local.ports import free_port
from dsms.local.waiting import wait_until
from integration.cluster import running
from integration.kafka_log import Input, advance, write
from integration.kafka_topics import TopicFactory

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
STATEMENTS = """
REGISTER SOURCE Source (k INT, v INT) FROM "{topic}" IDLE NEVER;
CREATE STREAM S OVER Source KEY k;
CREATE STREAMED VIEW Sums AS SELECT v, COUNT(*) AS n FROM S GROUP BY v
"""


class Collector:
    """An OTLP collector: receives exports over HTTP and remembers the names in them."""

    def __init__(self) -> None:
        self.metrics, self.spans = set[tuple[str, str]](), dict[str, str]()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                collector.take(self.path, self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def take(self, path: str, body: bytes) -> None:
        if path == "/v1/metrics":
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                service = next(a.value.string_value for a in resource.resource.attributes if a.key == "service.name")
                self.metrics |= {(service, metric.name) for scope in resource.scope_metrics for metric in scope.metrics}
        elif path == "/v1/traces":
            for traced in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.spans |= {span.name: span.trace_id.hex() for scope in traced.scope_spans for span in scope.spans}


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    thread = threading.Thread(target=collector.server.serve_forever, daemon=True)
    thread.start()
    yield collector
    collector.server.shutdown()
    collector.server.server_close()
    thread.join()


def scraped(url: str) -> dict[str, float]:
    """The sum of all samples of each metric."""
    text = httpx.get(f"{url}/metrics", trust_env=False).raise_for_status().text
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found


def test_metrics_and_traces_of_services_are_exported(
    kafka: str, redis_url: str, topic: TopicFactory, tmp_path: Path, collector: Collector
) -> None:
    exporting = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_METRIC_EXPORT_INTERVAL": "500",
        "OTEL_BSP_SCHEDULE_DELAY": "500",
    }
    with running(kafka, redis_url, tmp_path, environment=exporting) as cluster:
        source, port = topic("source", partitions=1), free_port()
        cluster.start_executor(environment={**exporting, "DSMS_HEALTH_PORT": str(port)})
        cluster.call(
            "POST",
            "statements",
            json={"sql": STATEMENTS.format(topic=source)},
            headers={"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"},
        )
        write(kafka, source, [Input(json.dumps({"k": k, "v": k % 3}).encode(), k) for k in range(20)])
        write(kafka, source, [Input(b"no json", 20)])
        advance(kafka, source, 30)
        cluster.await_frontier(cluster.topic("Sums"), 30)
        executor = f"http://127.0.0.1:{port}"
        assert wait_until(lambda: scraped(executor).get("dsms_records_read_total", 0) >= 21, 120), scraped(executor)
        seen = scraped(executor)
        assert seen["dsms_dead_letters_total"] == 1
        assert seen["dsms_results_written_total"] >= 3
        assert seen["dsms_epoch_duration_seconds_count"] == seen["dsms_epochs_total"] >= 1
        assert wait_until(lambda: scraped(executor).get("dsms_operator_rows_in_total", 0) >= 20, 120)
        calls = scraped(cluster.url)
        assert calls["http_server_request_duration_seconds_count"] >= 1
        assert calls["dsms_executors"] == 1
        assert calls["dsms_queries"] >= 1
        spans = {"POST /v1/statements", "dsms.epoch", "dsms.epoch.compute", "dsms.epoch.publish", "dsms.epoch.manifest"}
        assert wait_until(lambda: spans <= collector.spans.keys(), 120), collector.spans
        assert collector.spans["POST /v1/statements"] == TRACE
        wanted = {("dsms-coordinator", "dsms.queries"), ("dsms-executor", "dsms.records.read")}
        assert wait_until(lambda: wanted <= collector.metrics, 120), collector.metrics
