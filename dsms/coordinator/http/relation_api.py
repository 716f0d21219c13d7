"""The HTTP calls that read relations and load tables."""

import tempfile
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from dsms.coordinator.http.backend import Backend
from dsms.coordinator.http.caller_services import CallerService
from dsms.coordinator.http.errors import json_response
from dsms.coordinator.http.instant_parameter import InstantParameter
from dsms.coordinator.http.models import BAD_REQUEST, MEGABYTE, UNAVAILABLE, UNKNOWN_NAME, StatementResultModel

MAX_ROWS = 100_000


class RelationModel(BaseModel):
    """The rows of a view, query or table at an instant."""

    name: str = Field(examples=["hot"])
    at: int = Field(description="the instant; the relation at this instant is final")
    columns: list[str]
    types: list[str] = Field(description="the types of the columns, as in SQL")
    rows: list[list[Any]]
    total: int = Field(description="the total number of rows; `rows` has at most `limit` of them")


def relations_router(backend: Backend) -> APIRouter:
    """`GET /v1/queries/{name}/relation` and `POST /v1/tables/{name}/rows`."""
    router = APIRouter(prefix="/v1", tags=["relations"], responses={**BAD_REQUEST, **UNKNOWN_NAME, **UNAVAILABLE})

    @router.get(
        "/queries/{name}/relation", summary="A view, query or table at an instant", response_model=RelationModel
    )
    def relation(
        service: CallerService,
        name: str,
        at: InstantParameter | None = None,
        limit: Annotated[int, Query(ge=0, le=MAX_ROWS)] = MAX_ROWS,
    ) -> Response:
        return json_response(service.relation(name, at, limit))

    @router.post(
        "/tables/{name}/rows",
        summary="Add the rows of a CSV or Parquet file to a table, at one instant",
        response_model=StatementResultModel,
        max_body_size=backend.service.limits.load_mb * MEGABYTE,
        openapi_extra={"requestBody": {"content": {"application/octet-stream": {}}, "required": True}},
    )
    async def load(
        request: Request, service: CallerService, name: str, form: Annotated[str, Query(alias="format")] = "csv"
    ) -> Response:
        with tempfile.TemporaryDirectory(prefix="dsms-load-") as directory:
            path = Path(directory) / "rows"
            with path.open("wb") as file:
                async for part in request.stream():
                    await run_in_threadpool(file.write, part)
            return json_response(await run_in_threadpool(service.load, name, path, form))

    return router
