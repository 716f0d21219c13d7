"""The HTTP call that requests checkpoints. `GET /v1/status` shows the completed ones."""

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from dsms.coordinator.http.access import needs
from dsms.coordinator.http.backend import Backend
from dsms.coordinator.http.errors import json_response
from dsms.coordinator.http.models import UNAVAILABLE


class CheckpointRequest(BaseModel):
    """A request for checkpoints, which the executors serve later."""

    request: int = Field(
        description="number of the request; executors report it as `served` when they have served it",
        examples=[1795579734721],
    )


def checkpoints_router(backend: Backend) -> APIRouter:
    """`POST /v1/checkpoints`."""
    router = APIRouter(prefix="/v1", tags=["checkpoints"])

    @router.post(
        "/checkpoints",
        summary="Asks all executors for checkpoints of their fragments",
        response_model=CheckpointRequest,
        responses=UNAVAILABLE,
    )
    @needs("administrator")
    def request() -> Response:
        return json_response({"request": backend.service.control.request_checkpoint()})

    return router
