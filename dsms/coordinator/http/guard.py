"""The guard in front of the HTTP interface: every call but probes needs a token with a sufficient role."""

from __future__ import annotations

import base64
import binascii
from collections import defaultdict
from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from dsms.coordinator.http.access import Access, declared_role, needed_for_call
from dsms.coordinator.http.errors import error_document, json_response
from dsms.model.principal import Caller, Forbidden
from dsms.model.roles import Role, allows
from operators.core.errors import UserError

#: What load balancers and probes ask for without a token: it reveals only whether the process works.
OPEN = frozenset({"/healthz", "/readyz"})
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="dsms"'}


class RouteRoles:
    """The roles that the routes of an application declare."""

    def __init__(self, routes: Iterable[Route]) -> None:
        by_method: dict[str, list[Route]] = defaultdict(list)
        for route in routes:
            for method in route.methods or ():
                by_method[method].append(route)
        #: The routes of each method under which some route declares a role; the others need not be searched.
        self._routes = {method: routes for method, routes in by_method.items() if any(map(_declares, routes))}

    def needed(self, scope: Scope) -> Role:
        """The role that a request needs: that of the first route that takes it, as it will be routed."""
        routes = self._routes.get(scope["method"], ())
        taken = (route.endpoint for route in routes if route.matches(scope)[0] is Match.FULL)
        return needed_for_call(scope["method"], next(taken, None))


def _declares(route: Route) -> bool:
    return declared_role(route.endpoint) is not None


class Guard:
    """Answers 401 without a known token and 403 where its role does not suffice; else the state has the caller.

    A token comes as `Authorization: Bearer TOKEN`, or as the password of Basic, which schema registry clients send.
    """

    def __init__(self, app: ASGIApp, access: Access, routes: Iterable[Route]) -> None:
        self._app, self._access, self._roles = app, access, RouteRoles(routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers or passes on one request."""
        if scope["type"] != "http" or scope["path"] in OPEN:
            await self._app(scope, receive, send)
            return
        principal = self._access.principal_of(bearer(Headers(scope=scope).get("authorization", "")))
        if principal is None:
            error = UserError("a token is needed", hint="send Authorization: Bearer TOKEN, or set DSMS_TOKEN")
            await json_response(error_document(error, "unauthorized"), 401, _CHALLENGE)(scope, receive, send)
        elif not allows(principal.role, needed := self._roles.needed(scope)):
            forbidden = Forbidden(f"this needs the role {needed}, the token has {principal.role}")
            await json_response(error_document(forbidden, "forbidden"), 403)(scope, receive, send)
        else:
            scope.setdefault("state", {})["caller"] = Caller(principal)
            await self._app(scope, receive, send)


def bearer(header: str) -> str:
    """The token of an Authorization header; empty if it has none.

    >>> bearer("Bearer abc"), bearer("Basic " + base64.b64encode(b"any:abc").decode()), bearer("")
    ('abc', 'abc', '')
    """
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(value, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""
