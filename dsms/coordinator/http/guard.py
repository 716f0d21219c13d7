"""The guard in front of the HTTP interface: every call but probes needs a token with a sufficient role."""

from __future__ import annotations

import base64
import binascii

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from dsms.coordinator.http.access import Access, Forbidden, needed_for_request
from dsms.coordinator.http.errors import error_document, json_response
from dsms.model.roles import allows
from operators.core.errors import UserError

#: What load balancers and probes ask for without a token: it reveals only whether the process works.
OPEN = frozenset({"/healthz", "/readyz"})
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="dsms"'}


class Guard:
    """Answers 401 without a known token and 403 where its role does not suffice; else passes the role on in the state.

    A token comes as `Authorization: Bearer TOKEN`, or as the password of Basic, which schema registry clients send.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers or passes on one request."""
        if scope["type"] != "http" or scope["path"] in OPEN:
            await self._app(scope, receive, send)
            return
        role = self._access.role_of(bearer(Headers(scope=scope).get("authorization", "")))
        needed = needed_for_request(scope["method"], scope["path"])
        if role is None:
            error = UserError("a token is needed", hint="send Authorization: Bearer TOKEN, or set DSMS_TOKEN")
            await json_response(error_document(error, "unauthorized"), 401, _CHALLENGE)(scope, receive, send)
        elif not allows(role, needed):
            forbidden = Forbidden(f"this needs the role {needed}, the token has {role}")
            await json_response(error_document(forbidden, "forbidden"), 403)(scope, receive, send)
        else:
            scope.setdefault("state", {})["role"] = role
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
