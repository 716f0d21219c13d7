"""Measures the duration of HTTP calls, and traces them."""

from __future__ import annotations

import time

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dsms.telemetry.instruments import REQUEST_DURATION
from dsms.telemetry.telemetry import Telemetry

_ERROR = 500
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class MeasuredCalls:
    """Measures the duration of each HTTP call by its route, and traces it as part of the trace in its header
    `traceparent`."""

    def __init__(self, app: ASGIApp, telemetry: Telemetry) -> None:
        self._app, self._telemetry = app, telemetry
        self._durations = telemetry.histogram(REQUEST_DURATION)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one call."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), _ERROR

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            with self._telemetry.span(scope["method"], {}, Headers(scope=scope)) as span:
                await self._app(scope, receive, noting)
                span.update_name(f"{scope['method']} {_route(scope)}")
                span.set_attributes(_attributes(scope, status))
        finally:
            self._durations.record(time.monotonic() - began, _attributes(scope, status))


def _route(scope: Scope) -> str:
    """The path with the names of its parameters instead of their values, which would be unlimited in number."""
    return str(getattr(scope.get("route"), "path", "unknown"))


def _attributes(scope: Scope, status: int) -> dict[str, str | int]:
    return {
        "http.request.method": scope["method"] if scope["method"] in _METHODS else "_OTHER",
        "http.route": _route(scope),
        "http.response.status_code": status,
    }
