"""The coordinator's HTTP interface: statements, the objects they made, health, and the schema registry."""

from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError

from dsms.coordinator.http.access import Access, check_statements
from dsms.coordinator.http.control_api import control_router
from dsms.coordinator.http.errors import dsms_error_response, invalid_request_response, json_response
from dsms.coordinator.http.guard import Guard
from dsms.coordinator.http.idempotency_header import IdempotencyKey, StatementEffects, once_response
from dsms.coordinator.http.models import (
    DeadLetterModel,
    ErrorResponse,
    ObjectModel,
    StatementResultModel,
    StatementsRequest,
    StatementsResponse,
    StatusModel,
)
from dsms.coordinator.http.plan_api import plan_router
from dsms.coordinator.http.registry_api import registry_error_response, registry_router
from dsms.coordinator.http.relation_api import relations_router
from dsms.coordinator.http.results_api import results_router
from dsms.coordinator.http.service import Service
from dsms.coordinator.registry.subjects import RegistryError, SchemaRegistry
from dsms.coordinator.statements.idempotency import Once
from operators.core.errors import DsmsError

_REFUSED: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorResponse, "description": "the request is wrong; nothing was done by the failing statement"},
    503: {"model": ErrorResponse, "description": "another system failed; try again after Retry-After seconds"},
}
_UNKNOWN: dict[int | str, dict[str, Any]] = {404: {"model": ErrorResponse, "description": "no such object"}}


def create_app(service: Service, registry: SchemaRegistry, access: Access | None = None) -> FastAPI:
    """The application over one service and one registry. Calls that may block run in the thread pool. With `access`
    nothing is told without a token."""
    app = FastAPI(
        title="dsms",
        description="Continuous SQL over Kafka, and a Confluent-compatible schema registry.",
        version="1",
        docs_url="/docs",
        redoc_url=None,
    )
    if access is not None:
        app.add_middleware(Guard, access=access)
    app.add_exception_handler(RegistryError, registry_error_response)
    app.add_exception_handler(DsmsError, dsms_error_response)
    app.add_exception_handler(RequestValidationError, invalid_request_response)
    once = Once(_Answers(service))
    app.include_router(_health_router(service))
    app.include_router(_statements_router(service, once))
    app.include_router(_objects_router(service))
    app.include_router(control_router(service))
    app.include_router(plan_router(service))
    app.include_router(relations_router(service))
    app.include_router(results_router(service, once))
    app.include_router(registry_router(registry))
    return app


def _health_router(service: Service) -> APIRouter:
    router = APIRouter(tags=["health"])

    @router.get("/healthz", summary="The process answers", response_model=dict[str, str])
    def healthz() -> Response:
        return json_response({"status": "ok"})

    @router.get(
        "/readyz",
        summary="The coordinator can serve requests",
        description="200 with {} when ready, otherwise 503 with the reason by dependency",
        response_model=dict[str, str],
        responses={503: {"model": dict[str, str], "description": "not ready"}},
    )
    def readyz() -> Response:
        reasons = service.readiness()
        return json_response(reasons, 503 if reasons else 200)

    return router


class _Answers:
    """The store of the service, whenever it is asked for."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def begin(self, key: str, entry: bytes) -> bytes | None:
        return self._service.results.answers.begin(key, entry)

    def replace(self, key: str, held: bytes, entry: bytes) -> bool:
        return self._service.results.answers.replace(key, held, entry)


def _statements_router(service: Service, once: Once) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["statements"], responses=_REFUSED)

    @router.post("/statements", summary="Run statements", response_model=StatementsResponse)
    def statements(call: Request, request: StatementsRequest, idempotency_key: IdempotencyKey = None) -> Response:
        if role := getattr(call.state, "role", None):
            check_statements(request.sql, role)
        effects, content = StatementEffects(service, request.sql), request.sql.encode(errors="surrogatepass")

        def run() -> Response:
            return json_response({"results": service.execute(request.sql)})

        return once_response(once, call, idempotency_key, content, run, effects)

    @router.get("/status", summary="Executors, fragments, leases and lag", response_model=StatusModel)
    def status() -> Response:
        return json_response(service.status())

    return router


def _objects_router(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["objects"], responses=_REFUSED)

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
        responses=_UNKNOWN,
    )
    def dead_letters(name: str, limit: Annotated[int, Query(ge=1, le=10_000)] = 100) -> Response:
        return json_response(service.dead_letters(name, limit))

    for kind in ("sources", "streams", "queries"):
        _add_object(router, service, kind)
    return router


def _add_object(router: APIRouter, service: Service, kind: str) -> None:
    @router.get(f"/{kind}/{{name}}", summary="One object", response_model=ObjectModel, responses=_UNKNOWN)
    def describe(name: str) -> Response:
        return json_response(service.describe(name))

    @router.delete(
        f"/{kind}/{{name}}", summary="Drop an object", response_model=StatementResultModel, responses=_UNKNOWN
    )
    def drop(name: str) -> Response:
        return json_response(service.drop(name))
