"""The coordinator's HTTP interface: the list of its routers, and the handlers of errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from http import HTTPStatus

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.routing import Route

from dsms.coordinator.http.access import Access
from dsms.coordinator.http.backend import Backend
from dsms.coordinator.http.checkpoints_api import checkpoints_router
from dsms.coordinator.http.console_api import console_router
from dsms.coordinator.http.control_api import control_router
from dsms.coordinator.http.errors import (
    dsms_error_response,
    invalid_request_response,
    too_deep_response,
    too_large_response,
)
from dsms.coordinator.http.guard import OPEN, Guard
from dsms.coordinator.http.health_api import health_router
from dsms.coordinator.http.history_api import history_router
from dsms.coordinator.http.measured_calls import MeasuredCalls
from dsms.coordinator.http.metrics_api import metrics_router
from dsms.coordinator.http.models import MEGABYTE
from dsms.coordinator.http.objects_api import objects_router
from dsms.coordinator.http.pages import HostNames, OwnPagesOnly
from dsms.coordinator.http.plan_api import plan_router
from dsms.coordinator.http.registry_api import registry_error_response, registry_router
from dsms.coordinator.http.relation_api import relations_router
from dsms.coordinator.http.results_api import results_router
from dsms.coordinator.http.statements_api import statements_router
from dsms.coordinator.http.story_api import story_router
from dsms.coordinator.http.version_api import version_router
from dsms.coordinator.idempotency.calls import IdempotentCalls
from dsms.coordinator.registry.subjects import RegistryError, SchemaRegistry
from dsms.coordinator.results.feed import Feeds
from dsms.coordinator.service.coordinator import Coordinator
from dsms.telemetry.coordinator_metrics import observe_states
from dsms.telemetry.telemetry import Telemetry
from operators.core.errors import DsmsError, InternalError

#: To add a route, write its function, and add its router here unless the router is in the list. The paths of the
#: registry match nearly everything, so its router comes last.
ROUTERS: tuple[Callable[[Backend], APIRouter], ...] = (
    health_router,
    metrics_router,
    statements_router,
    objects_router,
    control_router,
    plan_router,
    relations_router,
    results_router,
    version_router,
    checkpoints_router,
    history_router,
    story_router,
    console_router,
    registry_router,
)


def create_app(
    service: Coordinator,
    registry: SchemaRegistry,
    access: Access | None = None,
    telemetry: Telemetry | None = None,
    hosts: HostNames = HostNames(),  # noqa: B008 frozen
    feeds: Feeds | None = None,
) -> FastAPI:
    """The application over one service and one registry. Calls that may block run in the thread pool. With `access`
    every call needs a token, except health probes and the files of the console. Measurements go to `telemetry`;
    `hosts` are the names by which clients call the server. A second application in the process needs `feeds` of its
    own, because it is served by another event loop."""
    telemetry = telemetry or Telemetry("dsms-coordinator", "coordinator", {})
    observe_states(telemetry, service.queries, service.status, service.sinks)
    app = FastAPI(
        title="dsms",
        description="Continuous SQL over Kafka, and a Confluent-compatible schema registry.",
        version="1",
        docs_url="/docs",
        redoc_url=None,
        max_body_size=service.limits.request_mb * MEGABYTE,
    )
    app.add_exception_handler(RegistryError, registry_error_response)
    app.add_exception_handler(DsmsError, dsms_error_response)
    app.add_exception_handler(RecursionError, too_deep_response)
    app.add_exception_handler(RequestValidationError, invalid_request_response)
    app.add_exception_handler(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, partial(too_large_response, service.limits))
    sign_in = access.sign_in if access is not None else None
    once = IdempotentCalls(_AnswersOf(service))
    app.state.backend = backend = Backend(service, registry, once, telemetry, sign_in, feeds)
    routers = [router(backend) for router in ROUTERS]
    for router in routers:
        app.include_router(router)
    app.add_middleware(Guard, access=access, routes=routes_of(routers), service=service)
    app.add_middleware(OwnPagesOnly, names=hosts, exempt=OPEN)
    app.add_middleware(MeasuredCalls, telemetry=telemetry)  # the middleware added last is the outermost
    return app


def routes_of(routers: Iterable[APIRouter]) -> list[Route]:
    """The routes of the routers in the order in which they are matched. Raises InternalError for a router within a
    router: the guard would not see the roles of its routes."""
    routes = [route for router in routers for route in router.routes]
    if others := [route for route in routes if not isinstance(route, Route)]:
        raise InternalError(f"routers hold plain routes only: {others}")
    return [route for route in routes if isinstance(route, Route)]


class _AnswersOf:
    """The service's store of answers. It is looked up at each call, since a service may get another store."""

    def __init__(self, service: Coordinator) -> None:
        self._service = service

    def begin(self, key: str, entry: bytes) -> bytes | None:
        return self._service.answers.begin(key, entry)

    def replace(self, key: str, expected: bytes, entry: bytes) -> bool:
        return self._service.answers.replace(key, expected, entry)
