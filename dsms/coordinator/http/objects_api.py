"""The HTTP calls about the objects that statements have created."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from dsms.coordinator.http.backend import Backend
from dsms.coordinator.http.caller_services import CallerService
from dsms.coordinator.http.errors import json_response
from dsms.coordinator.http.models import BAD_REQUEST, UNAVAILABLE, UNKNOWN_NAME, StatementResultModel


class ColumnModel(BaseModel):
    """One column."""

    name: str
    type: str = Field(description="Arrow type", examples=["int64"])
    nullable: bool


class ObjectModel(BaseModel):
    """A source, stream, view, table or query. Fields that the object does not have are omitted."""

    model_config = ConfigDict(extra="allow")

    name: str = Field(examples=["hot"])
    kind: str = Field(examples=["streamed view"])
    sql: str | None = None
    state: str | None = Field(default=None, examples=["running"])
    topic: str | None = Field(default=None, examples=["dsms.hot"])
    key: list[str] | None = Field(default=None, description="primary key; empty for append-only")
    columns: list[ColumnModel] | None = None
    format: str | None = Field(default=None, description="json or avro")
    partitions: int | None = None


class SinkModel(BaseModel):
    """A sink: a result that the cluster keeps in another system."""

    name: str = Field(examples=["hot_files"])
    result: str = Field(description="the view, query or table", examples=["hot"])
    target: str = Field(examples=["delta:s3://lake/hot"])
    state: str = Field(description="starting, running, retrying or failed", examples=["running"])
    reason: str | None = Field(default=None, description="why it is retrying or failed")
    position: str | None = Field(default=None, description="the token after the changes that the target has")
    written: str | None = Field(default=None, description="when the target got them")
    comment: str | None = None


class DeadLetterModel(BaseModel):
    """A refused record, with the reason."""

    model_config = ConfigDict(extra="allow")


def objects_router(backend: Backend) -> APIRouter:
    """`/v1/sources`, `/v1/streams`, `/v1/queries` and `/v1/sinks`."""
    router = APIRouter(prefix="/v1", tags=["objects"], responses={**BAD_REQUEST, **UNAVAILABLE})

    @router.get("/sources", summary="All sources", response_model=list[ObjectModel])
    def sources(service: CallerService) -> Response:
        return json_response(service.sources())

    @router.get("/streams", summary="All streams, views and tables", response_model=list[ObjectModel])
    def streams(service: CallerService) -> Response:
        return json_response(service.streams())

    @router.get("/queries", summary="All continuous queries", response_model=list[ObjectModel])
    def queries(service: CallerService) -> Response:
        return json_response(service.queries())

    @router.get("/sinks", summary="All sinks, as SHOW SINKS lists them", response_model=list[SinkModel])
    def sinks(service: CallerService) -> Response:
        return json_response(service.sinks())

    @router.get(
        "/sources/{name}/dead-letters",
        summary="The latest records a source refused",
        response_model=list[DeadLetterModel],
        responses=UNKNOWN_NAME,
    )
    def dead_letters(
        service: CallerService, name: str, limit: Annotated[int, Query(ge=1, le=10_000)] = 100
    ) -> Response:
        return json_response(service.dead_letters(name, limit))

    for kind in ("sources", "streams", "queries"):
        _add_object(router, kind)
    return router


def _add_object(router: APIRouter, kind: str) -> None:
    @router.get(f"/{kind}/{{name}}", summary="One object", response_model=ObjectModel, responses=UNKNOWN_NAME)
    def describe(service: CallerService, name: str) -> Response:
        return json_response(service.describe(name))

    @router.delete(
        f"/{kind}/{{name}}", summary="Drop an object", response_model=StatementResultModel, responses=UNKNOWN_NAME
    )
    def drop(service: CallerService, name: str) -> Response:
        return json_response(service.drop(name))
