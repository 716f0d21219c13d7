"""The guard of the HTTP interface: every call except probes and the console needs a token with a sufficient role."""

from __future__ import annotations

import base64
import math
import re
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable
from typing import Protocol

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dsms.coordinator.audit.audit_log import Audit
from dsms.coordinator.http.access import Access, declared_role, needed_for_call
from dsms.coordinator.http.call_rates import CallRates
from dsms.coordinator.http.console_api import is_console
from dsms.coordinator.http.errors import error_document, json_response
from dsms.coordinator.oidc.signing_keys import PAUSE_S
from dsms.coordinator.oidc.tokens import TokenRefused
from dsms.model.audit_entry import Event
from dsms.model.limits import Limits
from dsms.model.principal import ANYBODY, Caller, Forbidden, Principal
from dsms.model.roles import Role, allows
from operators.core.errors import ExternalError, UserError

#: The paths that load balancers and probes may call without a token. They reveal only whether the process works.
OPEN = frozenset({"/healthz", "/readyz"})
#: The header with the id of a call: in the request if the client chooses the id, and in the answer.
REQUEST_ID = "x-request-id"
_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")
#: The principal of calls without a known token, and how many refused calls per second get an entry in the audit log.
_NOBODY, _REFUSALS_PER_S = Principal("", "reader"), 10.0
_STATEMENTS = "/v1/statements"
_TOKEN_NEEDED = (
    "send Authorization: Bearer TOKEN, or set DSMS_TOKEN; "
    'the token of "dsms up" is in the file "token" of its data directory'
)
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="dsms"'}
_WRONG_TOKEN = {"WWW-Authenticate": 'Bearer realm="dsms", error="invalid_token"'}
#: Seconds until the keys of an issuer that could not be reached are requested again.
_PAUSE = str(math.ceil(PAUSE_S))


class RouteRoles:
    """The roles that the routes of an application declare."""

    def __init__(self, routes: Iterable[Route]) -> None:
        by_method: dict[str, list[Route]] = defaultdict(list)
        for route in routes:
            for method in route.methods or ():
                by_method[method].append(route)
        #: The routes of each method that has a route with a declared role; other methods need no search.
        self._routes = {method: routes for method, routes in by_method.items() if any(map(_declares, routes))}

    def needed(self, scope: Scope) -> Role:
        """The role that a request needs: the role of the first route that matches, which is the one that serves it."""
        routes = self._routes.get(scope["method"], ())
        taken = (route.endpoint for route in routes if route.matches(scope)[0] is Match.FULL)
        return needed_for_call(scope["method"], next(taken, None))


def _declares(route: Route) -> bool:
    return declared_role(route.endpoint) is not None


class Guarded(Protocol):
    """The part of the service that the guard uses: its limits and its audit log."""

    @property
    def limits(self) -> Limits:
        """The limits, among them how often a token may call."""
        ...

    @property
    def audit(self) -> Audit:
        """The audit log."""
        ...


class Guard:
    """Answers 401 if the token is missing or unknown, 429 if the token, or an address without a known token, calls too
    often, and 403 if the role does not suffice. Otherwise puts the caller into the state of the request. Without
    `access` everybody may call.

    The token is sent as `Authorization: Bearer TOKEN`, or as the password of Basic, as schema registry clients do.
    """

    def __init__(self, app: ASGIApp, access: Access | None, routes: Iterable[Route], service: Guarded) -> None:
        self._app, self._access, self._roles, self._service = app, access, RouteRoles(routes), service
        self._rates, self._unknown, self._unnoted = CallRates(time.monotonic), CallRates(time.monotonic), 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request, or passes it on to the application."""
        if scope["type"] != "http" or scope["path"] in OPEN or is_console(scope["path"]):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        request_id = request_id_of(headers.get(REQUEST_ID, ""))
        principal, refusal = await self._let_in(headers, scope)
        if principal is not None and refusal is None:
            scope.setdefault("state", {})["caller"] = Caller(principal, request_id)
        if refusal is not None:
            self._note(principal, request_id, scope, refusal)
            await refusal(scope, receive, _with_header(send, request_id))
            return
        await self._passed_on(scope, receive, _with_header(send, request_id))

    async def _passed_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a call on, and writes an audit entry before and after a call that changes something. Statements get
        their entries one by one where they are run."""
        if scope["path"] == _STATEMENTS or not allows(self._roles.needed(scope), "writer"):
            await self._app(scope, receive, send)
            return
        caller, what, began = scope["state"]["caller"], f"{scope['method']} {scope['path']}", time.monotonic()
        try:
            await run_in_threadpool(self._service.audit.begins, caller, what)
        except ExternalError as error:
            await json_response(error_document(error, "external"), 503)(scope, receive, send)
            return
        statuses = [500]
        try:
            await self._app(scope, receive, _noting(send, statuses))
        finally:
            event: Event = "done" if statuses[-1] < 400 else "failed"
            self._service.audit.ended(caller, what, event, f"HTTP {statuses[-1]}", time.monotonic() - began)

    def _note(self, principal: Principal | None, request_id: str, scope: Scope, refusal: Response) -> None:
        """Writes an audit entry for a refused call. In a flood, only some calls get an entry, which says how many calls
        were skipped since the last one."""
        if self._rates.wait_s("", _REFUSALS_PER_S):
            self._unnoted += 1
            return
        more, self._unnoted = self._unnoted, 0
        caller = Caller(principal or _NOBODY, request_id)
        self._service.audit.refused(caller, f"{scope['method']} {scope['path']}", f"HTTP {refusal.status_code}", more)

    async def _let_in(self, headers: Headers, scope: Scope) -> tuple[Principal | None, Response | None]:
        """The principal, if it is known, and the refusal of a call that is not passed on."""
        if self._access is None:
            return ANYBODY.principal, self._refusal(ANYBODY.principal, scope)
        token, address = bearer(headers.get("authorization", "")), (scope.get("client") or ("",))[0]
        if (principal := self._access.principal_of(token)) is not None:
            return principal, self._refusal(principal, scope)
        most = self._service.limits.unknown_calls_per_second
        if self._unknown.exhausted(address, most):
            return None, self._too_many_unknown(address)  # before anything is computed for an unknown token
        try:
            principal, refusal = await self._access.issued(token), None
        except TokenRefused as error:
            refusal = json_response(error_document(error, "unauthorized"), 401, _WRONG_TOKEN)
        except Forbidden as error:
            return None, json_response(error_document(error, "forbidden"), 403)
        except ExternalError as error:
            return None, json_response(error_document(error, "external"), 503, {"Retry-After": _PAUSE})
        if principal is None:
            self._unknown.wait_s(address, most)
            refusal = refusal or (_unknown_token() if token else None)
        return principal, refusal or self._refusal(principal, scope)

    def _too_many_unknown(self, address: str) -> Response:
        """The answer to an address that makes too many calls without a known token."""
        hint = 'send a valid token; the limit "unknown_calls_per_second" is set by DSMS_LIMITS'
        busy = UserError(f"{address} makes too many calls without a known token", hint=hint)
        return json_response(error_document(busy, "busy"), 429, {"Retry-After": "1"})

    def _refusal(self, principal: Principal | None, scope: Scope) -> Response | None:
        """The answer to a call that is not passed on; None if the call may be passed on."""
        if principal is None:
            error = UserError("a token is needed", hint=_TOKEN_NEEDED)
            return json_response(error_document(error, "unauthorized"), 401, _CHALLENGE)
        per_second = principal.limits.calls_per_second or self._service.limits.token_calls_per_second
        if wait_s := self._rates.wait_s(principal.name, per_second):
            hint = 'the limit "token_calls_per_second" is set by DSMS_LIMITS or the token'
            busy = UserError(f'token "{principal.name}" makes more than {per_second:g} calls a second', hint=hint)
            return json_response(error_document(busy, "busy"), 429, {"Retry-After": str(math.ceil(wait_s))})
        if not allows(principal.role, needed := self._roles.needed(scope)):
            forbidden = Forbidden(f"this needs the role {needed}, the token has {principal.role}")
            return json_response(error_document(forbidden, "forbidden"), 403)
        return None


def request_id_of(given: str) -> str:
    """The id of a call: the client's id if it is valid, else a new one.

    >>> request_id_of("a-1"), len(request_id_of("no id\\n"))
    ('a-1', 32)
    """
    return given if _ID.fullmatch(given) else uuid.uuid4().hex


def _with_header(send: Send, request_id: str) -> Send:
    """Adds the id of the call to the headers of the answer."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], (REQUEST_ID.encode(), request_id.encode())]}
        await send(message)

    return sending


def _noting(send: Send, statuses: list[int]) -> Send:
    """Adds the status of the answer to a list."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])
        await send(message)

    return sending


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
    except ValueError:
        return ""


def _unknown_token() -> Response:
    hint = 'it may have been removed or mistyped; the token of "dsms up" is in the file "token" of its data directory'
    error = UserError("the coordinator does not know this token", hint=hint)
    return json_response(error_document(error, "unauthorized"), 401, _WRONG_TOKEN)
