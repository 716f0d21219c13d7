"""The HTTP calls about the objects that statements made."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from dsms.coordinator.http.error_responses import BAD_REQUEST, UNAVAILABLE, UNKNOWN_NAME
from dsms.coordinator.http.errors import json_response
from dsms.coordinator.http.models import DeadLetterModel, ObjectModel, StatementResultModel
from dsms.coordinator.http.service import Backend, Service


def objects_router(backend: Backend) -> APIRouter:
    """`/v1/sources`, `/v1/streams` and `/v1/queries`."""
    service = backend.service
    router = APIRouter(prefix="/v1", tags=["objects"], responses={**BAD_REQUEST, **UNAVAILABLE})

    @router.get("/sources", summary="All sources", response_model=list[ObjectModel])
    def sources() -> Response:
        return json_response(service.sources())

    @router.get("/streams", summary="All streams, views and tables", response_model=list[ObjectModel])
    def streams() -> Response:
        return json_response(service.streams())

    @router.get("/queries", summary="All continuous queries", response_model=list[ObjectModel])
    def queries() -> Response:
        return json_response(service.queries())

    @router.get(
        "/sources/{name}/dead-letters",
        summary="The latest records a source refused",
        response_model=list[DeadLetterModel],
        responses=UNKNOWN_NAME,
    )
    def dead_letters(name: str, limit: Annotated[int, Query(ge=1, le=10_000)] = 100) -> Response:
        return json_response(service.dead_letters(name, limit))

    for kind in ("sources", "streams", "queries"):
        _add_object(router, service, kind)
    return router


def _add_object(router: APIRouter, service: Service, kind: str) -> None:
    @router.get(f"/{kind}/{{name}}", summary="One object", response_model=ObjectModel, responses=UNKNOWN_NAME)
    def describe(name: str) -> Response:
        return json_response(service.describe(name))

    @router.delete(
        f"/{kind}/{{name}}", summary="Drop an object", response_model=StatementResultModel, responses=UNKNOWN_NAME
    )
    def drop(name: str) -> Response:
        return json_response(service.drop(name))
