"""The HTTP call that returns the story of a fragment: its last events."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from dsms.coordinator.http.backend import Backend
from dsms.coordinator.http.caller_services import CallerService
from dsms.coordinator.http.errors import json_response
from dsms.coordinator.http.models import UNAVAILABLE, UNKNOWN_NAME


class StoryEntryModel(BaseModel):
    """An event of a fragment. Fields that do not apply to the event are left out."""

    model_config = ConfigDict(extra="allow")

    at: str = Field(description="when it happened", examples=["2026-11-29T07:20:31+00:00"])
    until: str | None = Field(default=None, description="when it happened last, if it happened several times in a row")
    executor: str = Field(description="the executor on which it happened", examples=["executor-1"])
    event: str = Field(examples=["epoch committed"])
    text: str = Field(
        description="the event and what followed from it, in English",
        examples=["epoch 8 of plan 3 committed: 1,200 records, computed in 0.50 s, committed in 0.10 s"],
    )


def story_router(backend: Backend) -> APIRouter:
    """`GET /v1/fragments/{fragment}/story`."""
    router = APIRouter(prefix="/v1", tags=["control"], responses={**UNKNOWN_NAME, **UNAVAILABLE})

    @router.get(
        "/fragments/{fragment:path}/story",
        summary="The last events of a fragment, oldest first",
        description="also those on executors that ran it before, for a day",
        response_model=list[StoryEntryModel],
    )
    def story(service: CallerService, fragment: str, last: Annotated[int, Query(ge=1, le=10_000)] = 300) -> Response:
        return json_response(service.control.story(fragment, last))

    return router
