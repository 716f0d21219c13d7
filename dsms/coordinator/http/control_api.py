"""The HTTP calls about control tables: running entities (operators, queues, queries, executors, …) with attributes."""

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field, StrictInt

from dsms.coordinator.http.access import needs
from dsms.coordinator.http.backend import Backend
from dsms.coordinator.http.caller_services import CallerService
from dsms.coordinator.http.errors import json_response
from dsms.coordinator.http.models import BAD_REQUEST, UNAVAILABLE, UNKNOWN_NAME
from dsms.coordinator.statements.control_tables import MEASURED, AnyKind


class EntityModel(BaseModel):
    """An entity with its attributes. The documentation lists the attributes of each kind."""

    model_config = ConfigDict(extra="allow")

    id: str = Field(examples=["0-o3-739ee8980814102306e9"])


class QueryChange(BaseModel):
    """The attributes of a query that can be changed. An omitted attribute keeps its value."""

    model_config = ConfigDict(extra="forbid")

    weight: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="its weight when not all queries can run at once",
    )
    paused: bool | None = None
    state_memory: StrictInt | str | None = Field(
        default=None,
        description="the most bytes in redis of the state that only this query uses",
        examples=["100 MB", "none"],
    )


class ExecutorChange(BaseModel):
    """The attributes of an executor that can be changed. An omitted attribute keeps its value."""

    model_config = ConfigDict(extra="forbid")

    min_batch_records: int | None = Field(default=None, ge=1, le=100_000_000)
    max_batch_records: int | None = Field(default=None, ge=1, le=100_000_000)
    target_batch_seconds: float | None = Field(default=None, ge=0.01, le=600, allow_inf_nan=False)
    trigger_interval_seconds: float | None = Field(
        default=None,
        ge=0,
        le=60,
        allow_inf_nan=False,
        description="the least seconds from one batch to the next while there is no backlog",
    )
    policy: str | None = Field(default=None, description="the scheduling policy", examples=["chain"])
    state_memory: int | str | None = Field(
        default=None, description="the most bytes of state in redis", examples=["500 MB", "none"]
    )


def control_router(backend: Backend) -> APIRouter:
    """`/v1/control/…`: the running entities with their attributes. Some attributes can be changed."""
    router = APIRouter(prefix="/v1/control", tags=["control"], responses={**BAD_REQUEST, **UNKNOWN_NAME, **UNAVAILABLE})
    for kind in MEASURED:
        _add_kind(router, kind)
    _add_kind(router, "queries")
    _add_kind(router, "executors")

    @router.patch("/queries/{id}", summary="Change attributes of a query", response_model=EntityModel)
    def set_query(service: CallerService, id: str, change: QueryChange) -> Response:
        return json_response(service.control.set_query(id, **change.model_dump()))

    @router.patch(
        "/executors/{id}",
        summary="Change attributes of an executor",
        description="null restores the value it was started with; takes effect with the next batch",
        response_model=EntityModel,
    )
    @needs("administrator")
    def set_executor(service: CallerService, id: str, change: ExecutorChange) -> Response:
        return json_response(service.control.set_executor(id, change.model_dump(exclude_unset=True)))

    return router


def _add_kind(router: APIRouter, kind: AnyKind) -> None:
    @router.get(f"/{kind}", summary=f"All {kind}, or those of one query", response_model=list[EntityModel])
    def entities(service: CallerService, query: str | None = None) -> Response:
        return json_response(service.control.entities(kind, query))

    @router.get(f"/{kind}/{{id}}", summary=f"One of the {kind}", response_model=EntityModel)
    def entity(service: CallerService, id: str) -> Response:
        return json_response(service.control.entity(kind, id))
