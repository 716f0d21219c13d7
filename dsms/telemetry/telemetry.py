"""Exports metrics and traces of a process with OpenTelemetry.

Prometheus can always read the metrics by HTTP. If OTEL_EXPORTER_OTLP_ENDPOINT is set, metrics and traces also go to
that collector; the other variables of OpenTelemetry (OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, headers, intervals)
have their documented meaning. Exporting never delays the measured work and never makes it fail.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

from opentelemetry import trace
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import CallbackOptions, Counter, Histogram, Observation
from opentelemetry.sdk.metrics import MeterProvider, ObservableCounter, ObservableGauge
from opentelemetry.sdk.metrics.export import MetricExporter, MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from prometheus_client import CollectorRegistry, generate_latest

from dsms.runtime.epoch.step_time import StepTime
from dsms.telemetry.instruments import Instrument

Attributes = Mapping[str, str | int]
#: Returns the values of a gauge or counter; it is called at each export.
Read = Callable[[], Iterable[tuple[float, Attributes]]]
_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
#: The most attribute sets of an observed instrument. Sets accumulate, because queries and operators come and go.
_MAX_SETS = 20_000
_LIMITS: dict[Any, int] = {ObservableCounter: _MAX_SETS, ObservableGauge: _MAX_SETS}
#: How long a process that ends waits for the collector to take the last metrics and spans.
_CLOSE_TIMEOUT_S = 2.0
_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


class StepPart(NamedTuple):
    """A part of a step, with its duration in seconds."""

    name: str
    attributes: Attributes
    seconds: float


class Telemetry:
    """The meters and the tracer of a process; `service` and `instance` name the process. `readers` and `spans` are
    additional receivers, for tests.
    """

    def __init__(
        self,
        service: str,
        instance: str,
        environ: Mapping[str, str],
        *,
        readers: Sequence[MetricReader] = (),
        spans: SpanExporter | None = None,
    ) -> None:
        named = {"service.name": environ.get("OTEL_SERVICE_NAME", service), "service.instance.id": instance}
        resource = Resource.create(named)
        self._registry = CollectorRegistry()
        prometheus = PrometheusMetricReader(registry=self._registry, cardinality_limits=_LIMITS)
        otlp = _otlp() if environ.get(_ENDPOINT) else None
        periodic = [PeriodicExportingMetricReader(otlp[0], cardinality_limits=_LIMITS)] if otlp else []
        self._meters = MeterProvider([prometheus, *periodic, *readers], resource, shutdown_on_exit=False)
        self._meter = self._meters.get_meter("dsms")
        exporters = [exporter for exporter in (otlp[1] if otlp else None, spans) if exporter is not None]
        #: Whether spans are exported.
        self.traces = bool(exporters)
        self._tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        for exporter in exporters:
            self._tracers.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._tracers.get_tracer("dsms")

    def counter(self, instrument: Instrument) -> Counter:
        """A counter, to which the caller adds amounts."""
        return self._meter.create_counter(instrument.name, instrument.unit, instrument.meaning)

    def histogram(self, instrument: Instrument) -> Histogram:
        """A histogram, in which the caller records durations."""
        return self._meter.create_histogram(
            instrument.name, instrument.unit, instrument.meaning, explicit_bucket_boundaries_advisory=_BUCKETS_S
        )

    def observe(self, instrument: Instrument, read: Read) -> None:
        """Registers a gauge or counter whose values are read at each export."""

        def callback(_: CallbackOptions) -> Iterator[Observation]:
            return (Observation(value, dict(attributes)) for value, attributes in read())

        create = (
            self._meter.create_observable_counter
            if instrument.kind == "counter"
            else self._meter.create_observable_gauge
        )
        create(instrument.name, [callback], instrument.unit, instrument.meaning)

    @contextmanager
    def span(self, name: str, attributes: Attributes, carrier: Mapping[str, str] | None = None) -> Iterator[Span]:
        """A span around the block. If `carrier` has a `traceparent`, the span belongs to that trace."""
        around = TraceContextTextMapPropagator().extract(carrier or {})
        with self._tracer.start_as_current_span(
            name, around, kind=SpanKind.SERVER, attributes=dict(attributes), record_exception=False
        ) as span:
            try:
                yield span
            except Exception as error:
                span.set_status(Status(StatusCode.ERROR, type(error).__name__))
                raise

    def steps(
        self,
        name: str,
        attributes: Attributes,
        steps: Sequence[StepTime],
        parts: Mapping[str, Sequence[StepPart]] = MappingProxyType({}),
    ) -> None:
        """Exports a span over finished steps, with a child span for each step and, within it, for each of its parts.
        The times of parts within a step are unknown, so their spans begin with the step, and end with it at the latest.
        """
        if not self.traces or not steps:
            return
        shift = time.time() - time.monotonic()
        first, last = min(step.start for step in steps), max(step.end for step in steps)
        root = self._tracer.start_span(name, start_time=_ns(first + shift), attributes=dict(attributes))
        within = trace.set_span_in_context(root)
        for step in steps:
            span = self._tracer.start_span(f"{name}.{step.name}", within, start_time=_ns(step.start + shift))
            for part in parts.get(step.name, ()):
                self._part(part, span, step.start + shift, step.end + shift)
            span.end(_ns(step.end + shift))
        root.end(_ns(last + shift))

    def _part(self, part: StepPart, around: Span, start: float, end: float) -> None:
        within = trace.set_span_in_context(around)
        span = self._tracer.start_span(part.name, within, start_time=_ns(start), attributes=dict(part.attributes))
        span.end(_ns(min(start + part.seconds, end)))

    def prometheus(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def close(self) -> None:
        """Sends unsent metrics and spans; waits at most 2 s, in case the collector is unavailable."""
        closing = threading.Thread(target=self._shut_down, name="closing-telemetry", daemon=True)
        closing.start()
        closing.join(_CLOSE_TIMEOUT_S)

    def _shut_down(self) -> None:
        self._tracers.shutdown()
        self._meters.shutdown()


def _otlp() -> tuple[MetricExporter, SpanExporter]:
    """The exporters to a collector. They are imported only if a collector is configured."""
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPMetricExporter(), OTLPSpanExporter()


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)
