"""The HTTP calls about control tables."""

from fastapi import APIRouter, Response

from dsms.coordinator.http.error_responses import BAD_REQUEST, UNAVAILABLE, UNKNOWN_NAME
from dsms.coordinator.http.errors import json_response
from dsms.coordinator.http.models import EntityModel, ExecutorChange, QueryChange
from dsms.coordinator.http.service import Backend, Service
from dsms.coordinator.statements.control_tables import MEASURED, AnyKind


def control_router(backend: Backend) -> APIRouter:
    """`/v1/control/…`: what runs, with its attributes; some of them can be changed."""
    service = backend.service
    router = APIRouter(prefix="/v1/control", tags=["control"], responses={**BAD_REQUEST, **UNKNOWN_NAME, **UNAVAILABLE})
    for kind in MEASURED:
        _add_kind(router, service, kind)
    _add_kind(router, service, "queries")
    _add_kind(router, service, "executors")

    @router.patch("/queries/{id}", summary="Change attributes of a query", response_model=EntityModel)
    def set_query(id: str, change: QueryChange) -> Response:
        return json_response(service.control.set_query(id, change.weight, paused=change.paused))

    @router.patch(
        "/executors/{id}",
        summary="Change attributes of an executor",
        description="null returns to what it was started with; holds from the next batch on",
        response_model=EntityModel,
    )
    def set_executor(id: str, change: ExecutorChange) -> Response:
        return json_response(service.control.set_executor(id, change.model_dump(exclude_unset=True)))

    return router


def _add_kind(router: APIRouter, service: Service, kind: AnyKind) -> None:
    @router.get(f"/{kind}", summary=f"The {kind}, all or those of a query", response_model=list[EntityModel])
    def entities(query: str | None = None) -> Response:
        return json_response(service.control.entities(kind, query))

    @router.get(f"/{kind}/{{id}}", summary=f"One of the {kind}", response_model=EntityModel)
    def entity(id: str) -> Response:
        return json_response(service.control.entity(kind, id))
