"""The HTTP calls of probes: whether the process is alive, and whether it is ready. They do not wait for other calls:
Kubernetes must not end the process because many statements are slow."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from fastapi import APIRouter, Response

from dsms.coordinator.http.backend import Backend
from dsms.coordinator.http.errors import json_response


def health_router(backend: Backend) -> APIRouter:
    """`/healthz` and `/readyz`."""
    service, pool = backend.service, ThreadPoolExecutor(1, "probes")
    router = APIRouter(tags=["health"])

    @router.get("/healthz", summary="The process answers", response_model=dict[str, str])
    async def healthz() -> Response:
        return json_response({"status": "ok"})

    @router.get(
        "/readyz",
        summary="The coordinator can serve requests",
        description="200 with {} when ready, otherwise 503 with the reason by dependency",
        response_model=dict[str, str],
        responses={503: {"model": dict[str, str], "description": "not ready"}},
    )
    async def readyz() -> Response:
        reasons = await asyncio.get_running_loop().run_in_executor(pool, service.readiness)
        return json_response(reasons, 503 if reasons else 200)

    return router
