"""Requests that a web page makes. A browser on the machine of a user sends what any page asks it to send, so a page of
another site must not reach the API through it."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from dsms.coordinator.http.errors import error_document, json_response
from dsms.model.principal import Forbidden
from operators.core.errors import UserError

#: Media types that a page may send to another site without asking it first (the CORS-safelisted ones).
_SENT_UNASKED = frozenset({"application/x-www-form-urlencoded", "multipart/form-data", "text/plain"})
_PORTS = {"http": 80, "https": 443}
#: `Sec-Fetch-Site` of requests by our own pages, by the address bar and by bookmarks.
_OURS = ("same-origin", "none")
#: What a request that is not served is refused with.
Refusal = tuple[Literal[400, 403, 415, 421], UserError]


@dataclass(frozen=True, slots=True)
class HostNames:
    """The names by which clients call the server, beside those that no other site can have: addresses, `localhost`,
    names without a dot, and the name of this machine. `*.` at the beginning of a pattern stands for what comes before.

    A page whose site changes its DNS record to our address (DNS rebinding) is still called by the name of its site:

    >>> names = HostNames.of("dsms.example.org, *.svc")
    >>> [names.known(host) for host in ("127.0.0.1", "::1", "localhost", "coordinator", "a.svc", "evil.example")]
    [True, True, True, True, True, False]
    """

    patterns: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str) -> HostNames:
        """The patterns of a setting, separated by spaces or commas."""
        return cls(tuple(text.lower().replace(",", " ").split()))

    def known(self, host: str) -> bool:
        """Whether the server is called by this name."""
        name = host.lower().rstrip(".")
        if not name or _is_address(name) or self.lists(name):
            return bool(name)
        machine = (socket.gethostname().lower(), socket.getfqdn().lower())
        return "." not in name or name.endswith(".localhost") or name in machine

    def lists(self, host: str) -> bool:
        """Whether one of the patterns is of this name."""
        name = host.lower().rstrip(".")
        return any(name.endswith(pattern[1:]) if pattern[:2] == "*." else name == pattern for pattern in self.patterns)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def refusal(method: str, headers: Mapping[str, str], names: HostNames) -> Refusal | None:
    """Why a request is refused; None for one that is served. Names of headers are in lower case.

    >>> names = HostNames()
    >>> refusal("POST", {"host": "127.0.0.1:8080", "origin": "http://127.0.0.1:8080"}, names)
    >>> refusal("POST", {"host": "127.0.0.1:8080", "origin": "http://127.0.0.1:3000"}, names)[1].message
    'the page "http://127.0.0.1:3000" may not call "127.0.0.1:8080"'
    >>> refusal("GET", {"host": "evil.example"}, names)[0]
    421
    >>> refusal("POST", {"host": "localhost", "content-type": "text/plain", "content-length": "2"}, names)[0]
    415
    """
    return (
        _two_lengths(headers)
        or _wrong_host(headers, names)
        or _foreign_page(method, headers, names)
        or _unasked_body(headers)
    )


def _two_lengths(headers: Mapping[str, str]) -> Refusal | None:
    """A proxy before us may believe the other length, and take what follows for another request."""
    if "content-length" not in headers or "transfer-encoding" not in headers:
        return None
    return 400, UserError("a request has either Content-Length or Transfer-Encoding, not both")


def _wrong_host(headers: Mapping[str, str], names: HostNames) -> Refusal | None:
    host = headers.get("host")
    if host is None or names.known(_split(host)[0]):
        return None
    hint = "call it by its address or localhost, or start the coordinator with --hosts NAME (DSMS_HOSTS)"
    return 421, UserError(f'"{host}" is not a name of this server', hint=hint)


def _foreign_page(method: str, headers: Mapping[str, str], names: HostNames) -> Refusal | None:
    origin, host = headers.get("origin"), headers.get("host", "")
    if origin is not None and not _of_ours(origin, host, names):
        return 403, Forbidden(f'the page "{origin}" may not call "{host}"', hint=_OTHER_PAGE)
    site = headers.get("sec-fetch-site", "none")
    if origin is not None or site in _OURS or _opens_page(method, headers):
        return None
    return 403, Forbidden(f'a page of another site may not call "{host}"', hint=_OTHER_PAGE)


_OTHER_PAGE = "call the API from the server of that page, or serve both under one host that --hosts (DSMS_HOSTS) names"


def _of_ours(origin: str, host: str, names: HostNames) -> bool:
    """Whether a page is served under the host that is called, or, where a proxy changes `Host`, under a given name."""
    scheme, _, place = origin.partition("://")
    page, port = _split(place)
    if scheme not in _PORTS or not page:
        return False
    called, called_port = _split(host)
    standard = _PORTS[scheme]
    return (page, port or standard) == (called, called_port or standard) or names.lists(page)


def _opens_page(method: str, headers: Mapping[str, str]) -> bool:
    """Whether somebody follows a link: the answer is shown to the person, and the page with the link cannot read it."""
    return (
        method == "GET" and headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    )


def _unasked_body(headers: Mapping[str, str]) -> Refusal | None:
    if headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
        return None
    media = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media and media not in _SENT_UNASKED:
        return None
    hint = "send the header content-type: application/json, or the media type of the body"
    what = f'has the media type "{media}", which any web page can send' if media else "has no media type"
    return 415, UserError(f"the body {what}", hint=hint)


def _split(host: str) -> tuple[str, int | None]:
    """The name and the port of a `Host` header; no name where it is malformed.

    >>> _split("localhost:80"), _split("[::1]"), _split("a:b")
    (('localhost', 80), ('::1', None), ('', None))
    """
    try:
        parts = urlsplit(f"//{host}")
        return parts.hostname or "", parts.port
    except ValueError:
        return "", None


class OwnPagesOnly:
    """Refuses what pages of other sites send, and requests that call the server by a name that it does not have, before
    anything else sees them."""

    def __init__(self, app: ASGIApp, names: HostNames, exempt: frozenset[str]) -> None:
        self._app, self._names, self._exempt = app, names, exempt

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers or passes on one request."""
        if scope["type"] == "http" and scope["path"] not in self._exempt:
            refused = refusal(scope["method"], Headers(scope=scope), self._names)
            if refused is not None:
                status, error = refused
                await json_response(error_document(error, _KINDS[status]), status, _CLOSE)(scope, receive, send)
                return
        await self._app(scope, receive, send)


_KINDS = {400: "user", 403: "forbidden", 415: "user", 421: "user"}
#: The body of a refused request is not read.
_CLOSE = {"Connection": "close"}
