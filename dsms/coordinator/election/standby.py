"""The HTTP application of a coordinator that does not lead: it is alive, not ready, and refuses all other calls."""

from __future__ import annotations

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dsms.coordinator.http.errors import error_document, json_response
from operators.core.errors import ExternalError

_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_SOON = {"Retry-After": "1"}


def standby_app(state: Callable[[], str]) -> Starlette:
    """An application that is alive and never ready. `state` returns a text that says who leads."""

    async def healthz(_: Request) -> Response:
        return json_response({"status": "ok"})

    async def readyz(_: Request) -> Response:
        return json_response({"leader": state()}, 503)

    async def refused(_: Request) -> Response:
        error = ExternalError("this coordinator does not lead", hint=state())
        return json_response(error_document(error, "external"), 503, _SOON)

    return Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/{path:path}", refused, methods=_METHODS),
        ]
    )
