"""The HTTP calls about statements and the cluster as a whole."""

from fastapi import APIRouter, Request, Response

from dsms.coordinator.http.error_responses import BAD_REQUEST, UNAVAILABLE
from dsms.coordinator.http.errors import json_response
from dsms.coordinator.http.idempotency_header import IdempotencyKey, StatementEffects, once_response
from dsms.coordinator.http.models import StatementsRequest, StatementsResponse, StatusModel
from dsms.coordinator.http.service import Backend
from dsms.coordinator.http.statement_access import check_statements


def statements_router(backend: Backend) -> APIRouter:
    """`POST /v1/statements` and `GET /v1/status`."""
    service = backend.service
    router = APIRouter(prefix="/v1", tags=["statements"], responses={**BAD_REQUEST, **UNAVAILABLE})

    @router.post("/statements", summary="Run statements", response_model=StatementsResponse)
    def statements(call: Request, request: StatementsRequest, idempotency_key: IdempotencyKey = None) -> Response:
        if role := getattr(call.state, "role", None):
            check_statements(request.sql, role)
        effects, content = StatementEffects(service, request.sql), request.sql.encode(errors="surrogatepass")

        def run() -> Response:
            return json_response({"results": service.execute(request.sql)})

        return once_response(backend.once, call, idempotency_key, content, run, effects)

    @router.get("/status", summary="Executors, fragments, leases and lag", response_model=StatusModel)
    def status() -> Response:
        return json_response(service.status())

    return router
