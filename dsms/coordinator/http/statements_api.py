"""The HTTP calls that run statements and show the status of the cluster."""

import threading
from functools import partial

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from dsms.coordinator.http.access import needs
from dsms.coordinator.http.backend import Backend
from dsms.coordinator.http.caller_services import CallerService
from dsms.coordinator.http.disconnects import while_connected
from dsms.coordinator.http.errors import json_response
from dsms.coordinator.http.idempotency_header import IdempotencyKey, StatementEffects, once_response
from dsms.coordinator.http.models import BAD_REQUEST, UNAVAILABLE, StatementResultModel
from dsms.coordinator.http.permitted import PermittedService
from dsms.coordinator.tables.joined_lookups import JoinedLookups, result_unless_waiting


class StatementsRequest(BaseModel):
    """SQL text with one or more statements."""

    model_config = ConfigDict(extra="forbid")

    sql: str = Field(
        description="statements separated by semicolons",
        examples=["CREATE STREAMED VIEW hot AS SELECT room, temperature FROM R(readings) WHERE temperature > 30;"],
    )
    wait_s: float = Field(
        0.0, ge=0, le=3600, description="how many seconds a SELECT waits for a result that has no final instant yet"
    )


class StatementsResponse(BaseModel):
    """The results in the order of the statements."""

    results: list[StatementResultModel]


class StatusModel(BaseModel):
    """The cluster: executors, fragments, leases and lag."""

    model_config = ConfigDict(extra="allow")

    kafka: str | None = Field(default=None, description="bootstrap address for clients", examples=["localhost:9092"])


def statements_router(backend: Backend) -> APIRouter:
    """`POST /v1/statements` and `GET /v1/status`."""
    router = APIRouter(prefix="/v1", tags=["statements"], responses={**BAD_REQUEST, **UNAVAILABLE})
    lookups = JoinedLookups(backend.service.look_up_all)

    @router.post("/statements", summary="Run statements", response_model=StatementsResponse)
    @needs("reader")  # the role that each statement needs is checked when it runs
    async def statements(
        call: Request, service: CallerService, request: StatementsRequest, idempotency_key: IdempotencyKey = None
    ) -> Response:
        sql, service = request.sql, service.waiting(request.wait_s)
        if idempotency_key is None and (lookup := service.lookup_of(sql)) is not None:
            result = result_unless_waiting(await lookups.answer(lookup), request.wait_s)
            if result is not None:
                return json_response({"results": [result]})

        def run(cancelled: threading.Event) -> Response:
            act = partial(_executed, service, sql, cancelled)
            if idempotency_key is None:
                return act()
            effects, content = StatementEffects(service, sql), sql.encode(errors="surrogatepass")
            return once_response(backend.once, call, idempotency_key, content, act, effects)

        return await while_connected(call, run)

    @router.get("/status", summary="Executors, fragments, leases and lag", response_model=StatusModel)
    def status(service: CallerService) -> Response:
        return json_response(service.status())

    return router


def _executed(service: PermittedService, sql: str, cancelled: threading.Event) -> Response:
    return json_response({"results": service.execute(sql, cancelled)})
