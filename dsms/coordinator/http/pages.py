"""Refuses requests by web pages of other sites. A browser on a user's machine sends what any page tells it to send, so
a page of another site must not reach the API through that browser."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from dsms.coordinator.http.errors import ErrorKind, error_document, json_response
from dsms.model.principal import Forbidden
from operators.core.errors import UserError

#: Media types that a page may send to another site without a preflight request (the CORS-safelisted ones).
_SENT_UNASKED = frozenset({"application/x-www-form-urlencoded", "multipart/form-data", "text/plain"})
_PORTS = {"http": 80, "https": 443}
#: `Sec-Fetch-Site` of requests by the server's own pages, by the address bar and by bookmarks.
_OURS = ("same-origin", "none")
#: The status and the error with which a request is refused.
PageRefusal = tuple[Literal[400, 403, 415, 421], UserError]


@dataclass(frozen=True, slots=True)
class HostNames:
    """The names by which clients may call the server, in addition to names that no other site can have: addresses,
    `localhost`, names without a dot, and the name of this machine. A pattern that begins with `*.` matches all
    subdomains.

    A site may change its DNS record to the server's address (DNS rebinding), but requests by its pages still have the
    name of that site as their host:

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
        """Whether this is a name of the server."""
        name = host.lower().rstrip(".")
        if not name or _is_address(name) or self.lists(name):
            return bool(name)
        machine = (socket.gethostname().lower(), socket.getfqdn().lower())
        return "." not in name or name.endswith(".localhost") or name in machine

    def lists(self, host: str) -> bool:
        """Whether one of the patterns matches this name."""
        name = host.lower().rstrip(".")
        return any(name.endswith(pattern[1:]) if pattern[:2] == "*." else name == pattern for pattern in self.patterns)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def refusal(method: str, headers: Mapping[str, str], names: HostNames) -> PageRefusal | None:
    """Why a request is refused; None if it is served. Names of headers are in lower case.

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


def _two_lengths(headers: Mapping[str, str]) -> PageRefusal | None:
    """Refuses a request with two lengths (request smuggling): a proxy may use the other length, and take the rest of
    the body for another request."""
    if "content-length" not in headers or "transfer-encoding" not in headers:
        return None
    return 400, UserError("a request has either Content-Length or Transfer-Encoding, not both")


def _wrong_host(headers: Mapping[str, str], names: HostNames) -> PageRefusal | None:
    host = headers.get("host")
    if host is None or names.known(_split(host)[0]):
        return None
    hint = "call it by its address or localhost, or start the coordinator with --hosts NAME (DSMS_HOSTS)"
    return 421, UserError(f'"{host}" is not a name of this server', hint=hint)


def _foreign_page(method: str, headers: Mapping[str, str], names: HostNames) -> PageRefusal | None:
    origin, host = headers.get("origin"), headers.get("host", "")
    if origin is not None and not _of_ours(origin, host, names):
        return 403, Forbidden(f'the page "{origin}" may not call "{host}"', hint=_OTHER_PAGE)
    site = headers.get("sec-fetch-site", "none")
    if origin is not None or site in _OURS or _opens_page(method, headers):
        return None
    return 403, Forbidden(f'a page of another site may not call "{host}"', hint=_OTHER_PAGE)


_OTHER_PAGE = "call the API from the server of that page, or serve both under one host that --hosts (DSMS_HOSTS) names"


def _of_ours(origin: str, host: str, names: HostNames) -> bool:
    """Whether the page's origin is the host that it calls, or one of the given names, as a proxy may change `Host`."""
    scheme, _, place = origin.partition("://")
    page, port = _split(place)
    if scheme not in _PORTS or not page:
        return False
    called, called_port = _split(host)
    standard = _PORTS[scheme]
    return (page, port or standard) == (called, called_port or standard) or names.lists(page)


def _opens_page(method: str, headers: Mapping[str, str]) -> bool:
    """Whether the request follows a link: the browser shows the answer to the person, and the page with the link cannot
    read it."""
    return (
        method == "GET" and headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    )


def _unasked_body(headers: Mapping[str, str]) -> PageRefusal | None:
    if headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
        return None
    media = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media and media not in _SENT_UNASKED:
        return None
    hint = "send the header content-type: application/json, or the media type of the body"
    what = f'has the media type "{media}", which any web page can send' if media else "has no media type"
    return 415, UserError(f"the body {what}", hint=hint)


def _split(host: str) -> tuple[str, int | None]:
    """The name and the port of a `Host` header; an empty name if it is malformed.

    >>> _split("localhost:80"), _split("[::1]"), _split("a:b")
    (('localhost', 80), ('::1', None), ('', None))
    """
    try:
        parts = urlsplit(f"//{host}")
        return parts.hostname or "", parts.port
    except ValueError:
        return "", None


class OwnPagesOnly:
    """Refuses requests by pages of other sites, and requests that call the server by a name that it does not have,
    before the guard and the routes see them."""

    def __init__(self, app: ASGIApp, names: HostNames, exempt: frozenset[str]) -> None:
        self._app, self._names, self._exempt = app, names, exempt

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuses one request, or passes it on to the application."""
        if scope["type"] == "http" and scope["path"] not in self._exempt:
            refused = refusal(scope["method"], Headers(scope=scope), self._names)
            if refused is not None:
                status, error = refused
                await json_response(error_document(error, _KINDS[status]), status, _CLOSE)(scope, receive, send)
                return
        await self._app(scope, receive, send)


_KINDS: dict[int, ErrorKind] = {400: "user", 403: "forbidden", 415: "user", 421: "user"}
#: The connection is closed, since the body of a refused request is not read.
_CLOSE = {"Connection": "close"}
