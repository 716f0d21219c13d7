"""The service and the registry for routes, bound to the caller.

A route gets them by the annotations `CallerService` and `CallerRegistry`. They hold the caller as a value, so the
caller's rights apply in every thread and at any later time.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from dsms.coordinator.http.permitted import PermittedService
from dsms.coordinator.http.permitted_registry import PermittedRegistry
from dsms.model.principal import ANYBODY, Caller


def caller_of(request: Request) -> Caller:
    """The caller that the guard found."""
    caller: Caller = getattr(request.state, "caller", ANYBODY)
    return caller


def service_of(request: Request) -> PermittedService:
    """The service as the caller may use it."""
    return PermittedService(request.app.state.backend.service, caller_of(request))


# coroutines, since FastAPI would run plain functions in its thread pool
async def _service_of(request: Request) -> PermittedService:
    return service_of(request)


async def _registry_of(request: Request) -> PermittedRegistry:
    return PermittedRegistry(request.app.state.backend.registry, caller_of(request).principal)


CallerService = Annotated[PermittedService, Depends(_service_of)]
CallerRegistry = Annotated[PermittedRegistry, Depends(_registry_of)]
