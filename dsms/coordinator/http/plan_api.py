"""The HTTP calls that export and import objects and plans as a document."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from dsms.coordinator.http.backend import Backend
from dsms.coordinator.http.caller_services import CallerService
from dsms.coordinator.http.errors import json_response
from dsms.coordinator.http.models import BAD_REQUEST, UNAVAILABLE


class PlanModel(BaseModel):
    """All objects with their statements, and the plans of the queries."""

    model_config = ConfigDict(extra="allow")

    format: int
    objects: list[dict[str, Any]]


class ImportedModel(BaseModel):
    """The names of a document's objects: those that were created, and those that existed already; and notices."""

    made: list[str]
    there: list[str] = Field(description="created earlier by the same statement; unchanged")
    notices: list[str] = Field(
        description="which of the created objects have other columns than they were exported with"
    )


def plan_router(backend: Backend) -> APIRouter:
    """`GET` and `POST /v1/plan`."""
    router = APIRouter(prefix="/v1", tags=["plan"], responses={**BAD_REQUEST, **UNAVAILABLE})

    @router.get("/plan", summary="All objects and plans as a document", response_model=PlanModel)
    def export(
        service: CallerService, form: Annotated[Literal["json", "xml"], Query(alias="format")] = "json"
    ) -> Response:
        body, media = service.control.export_plan(form), "application/json" if form == "json" else "application/xml"
        return Response(body, media_type=media)

    @router.post(
        "/plan",
        summary="Create the objects of a document that do not exist yet",
        response_model=ImportedModel,
        openapi_extra={"requestBody": {"content": {"application/json": {}, "application/xml": {}}, "required": True}},
    )
    async def make(request: Request, service: CallerService) -> Response:
        body = await request.body()
        return json_response(await run_in_threadpool(service.control.import_plan, body))

    return router
