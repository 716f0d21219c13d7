"""The HTTP call that serves metrics for Prometheus."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse

from dsms.coordinator.http.backend import Backend
from dsms.coordinator.http.caller_services import caller_of


def metrics_router(backend: Backend) -> APIRouter:
    """`GET /metrics`."""
    router = APIRouter(tags=["health"])

    @router.get(
        "/metrics",
        summary="The metrics of the coordinator for Prometheus",
        description="in the Prometheus text format; each executor serves its own metrics on its health port",
        response_class=PlainTextResponse,
    )
    def metrics(request: Request) -> Response:
        caller_of(request).principal.check_unrestricted("read the metrics, which name all queries")
        return Response(backend.telemetry.prometheus(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return router
