"""The HTTP call that returns the load of a query over the last hours."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from dsms.coordinator.http.backend import Backend
from dsms.coordinator.http.caller_services import CallerService
from dsms.coordinator.http.errors import json_response
from dsms.coordinator.http.models import BAD_REQUEST, UNAVAILABLE, UNKNOWN_NAME
from dsms.coordinator.watcher.history import HOURS


class SampleModel(BaseModel):
    """What a query did at a time."""

    at: str = Field(examples=["2026-11-30T12:00:10.000Z"])
    records_per_second: float = Field(description="records that it read per second")
    unread: int = Field(description="records of its sources that it has not read")
    state_bytes: int = Field(description="the size of all state that it uses")
    load: float = Field(description="cores that its operators used; those of shared operators in parts")


def history_router(backend: Backend) -> APIRouter:
    """`GET /v1/queries/{name}/history`."""
    router = APIRouter(prefix="/v1", tags=["objects"], responses={**BAD_REQUEST, **UNKNOWN_NAME, **UNAVAILABLE})

    @router.get(
        "/queries/{name}/history",
        summary="The load of a query over the last hours, oldest first",
        description="a sample every ten seconds, or fewer with many queries, since the coordinator leads",
        response_model=list[SampleModel],
    )
    def history(
        service: CallerService, name: str, minutes: Annotated[int, Query(ge=1, le=HOURS * 60)] = 60
    ) -> Response:
        return json_response(service.history(name, minutes))

    return router
