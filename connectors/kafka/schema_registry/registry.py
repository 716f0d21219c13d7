"""Looks up and registers schemas in a schema registry, which may be this system's own or an external one.

It uses plain HTTP, because every worker looks up schemas, and the libraries of Confluent's client would cost each
process 11 MB and 0.3 s. The HTTP library is imported on first use, since not every process uses a registry.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from connectors.credentials.client_tls import ClientTls
from connectors.credentials.secrets import NoSecret, resolved_url
from operators.core.errors import ExternalError, UserError

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, PoolManager

_TIMEOUT_S = 10.0
_TYPE = "application/vnd.schemaregistry.v1+json"


@lru_cache(maxsize=64)
def schema_lookup(url: str, *, ours: bool = True) -> Callable[[int], dict[str, Any]]:
    """A cached lookup of writer schemas by id. It raises LookupError for an unknown id, and ExternalError if the
    registry cannot be reached. Only this system's own registry (`ours`) gets the process's token; a registry that a
    statement names never does."""

    @lru_cache(maxsize=4096)
    def lookup(schema_id: int) -> dict[str, Any]:
        answer = _answer(url, ours, "GET", f"schemas/ids/{schema_id}")
        if answer.status == HTTPStatus.NOT_FOUND:
            raise LookupError(f"unknown schema id {schema_id}")
        try:
            protobuf = _found(answer).get("schemaType") == "PROTOBUF"
            schema = _protobuf(url, ours, schema_id) if protobuf else _schema_in(answer)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ExternalError(f"the schema registry returned something that is not a schema: {error!r}") from error
        return schema if isinstance(schema, dict) else {"type": schema}

    return lookup


def _protobuf(url: str, ours: bool, schema_id: int) -> dict[str, Any]:
    """A compiled Protobuf schema with its imports. An unusable one is refused when records are read."""
    from connectors.formats.protobuf_schema import document, with_imports

    def compiled(path: str) -> dict[str, Any]:
        found = _found(_answer(url, ours, "GET", f"{path}?format=serialized"))
        if found.get("schemaType", "AVRO") != "PROTOBUF":
            return {}
        return document(found["schema"], found.get("references") or ())

    def version(subject: str, number: int) -> dict[str, Any]:
        return compiled(f"subjects/{quote(subject, safe='')}/versions/{int(number)}")

    return with_imports(compiled(f"schemas/ids/{schema_id}"), version)


def register_schema(url: str, subject: str, schema: dict[str, Any], *, ours: bool = True) -> int:
    """Registers a schema under a subject, if it is new; returns its id. `ours` as in `schema_lookup`."""
    body = {"schema": json.dumps(schema), "schemaType": "AVRO"}
    answer = _answer(url, ours, "POST", f"subjects/{quote(subject, safe='')}/versions", body)
    if answer.status != HTTPStatus.OK:
        raise ExternalError(
            f'the schema registry refused the schema of subject "{subject}": {_reason(answer)}', retryable=False
        )
    return int(answer.json()["id"])


def latest_schema(url: str, subject: str, *, ours: bool = True) -> tuple[int, dict[str, Any]] | None:
    """The id and the text of the latest Avro schema of a subject, as a document; None if it has no Avro schema. `ours`
    as in `schema_lookup`."""
    answer = _answer(url, ours, "GET", f"subjects/{quote(subject, safe='')}/versions/latest")
    if answer.status == HTTPStatus.NOT_FOUND:
        return None
    schema = _schema_in(answer) if _found(answer).get("schemaType", "AVRO") == "AVRO" else None
    return (int(_found(answer)["id"]), schema) if isinstance(schema, dict) else None


@dataclass(frozen=True)
class Registry:
    """The schemas of the registry at a URL; `ours` as in `schema_lookup`."""

    url: str
    ours: bool

    def by_id(self, schema_id: int) -> dict[str, Any]:
        """The schema with an id. Raises LookupError for an unknown one."""
        return schema_lookup(self.url, ours=self.ours)(schema_id)

    def latest(self, subject: str) -> tuple[int, dict[str, Any]] | None:
        """The id and the text of the latest Avro schema of a subject, as a document; None if it has none."""
        return latest_schema(self.url, subject, ours=self.ours)


def place_of(url: str) -> tuple[str, int]:
    """The host and the port in the URL of a registry, parsed like its clients do. Raises UserError if the URL is
    invalid.

    >>> place_of("https://ann@Registry.example/x"), place_of("http://registry:8081")
    (('registry.example', 443), ('registry', 8081))
    """
    from urllib3.exceptions import LocationParseError
    from urllib3.util import parse_url

    try:
        parts = parse_url(parse_url(url)._replace(auth=None).url)  # the URL that requests use: see `_pool`
    except LocationParseError as error:
        raise UserError("the URL of a registry cannot be read", hint="use http://HOST:PORT") from error
    if not parts.host or parts.scheme not in ("http", "https", None):
        raise UserError("the URL of a registry has no host", hint="use http://HOST:PORT")
    return parts.host.lower(), parts.port or (443 if parts.scheme == "https" else 80)


def _answer(url: str, ours: bool, method: str, path: str, body: object = None) -> BaseHTTPResponse:
    from urllib3.exceptions import HTTPError

    try:
        pool, place = _pool(url, ours)
        # a registry that a statement names must not redirect requests to another host
        return pool.request(method, f"{place}/{path}", json=body, redirect=ours)
    except NoSecret as error:
        raise ExternalError(f"cannot reach the schema registry: {error.message}", hint=error.hint) from error
    except HTTPError as error:
        raise ExternalError(f"cannot reach the schema registry: {error}") from error


def _schema_in(answer: BaseHTTPResponse) -> object:
    return json.loads(_found(answer)["schema"])


def _found(answer: BaseHTTPResponse) -> dict[str, Any]:
    if answer.status != HTTPStatus.OK:
        raise ExternalError(f"the schema registry failed: {_reason(answer)}")
    found: dict[str, Any] = answer.json()
    return found


def _reason(answer: BaseHTTPResponse) -> str:
    """The reason that the registry gives for a refusal."""
    try:
        return f"{answer.json()['message']} (HTTP status {answer.status})"
    except (ValueError, TypeError, KeyError):
        return f"HTTP status {answer.status}"


@lru_cache(maxsize=16)
def _pool(url: str, ours: bool) -> tuple[PoolManager, str]:
    """Connections to a registry, and its URL without credentials. References to secrets in the URL are replaced here.

    The connections use the name and password in the URL. For this system's own registry, they use the token of the
    environment if the URL has no password, and the client certificate.
    """
    from urllib3 import PoolManager, Retry, make_headers
    from urllib3.util import parse_url

    token = os.environ.get("DSMS_TOKEN") if ours else None
    parts = parse_url(resolved_url(url, os.environ))
    user = unquote(parts.auth) if parts.auth else (f"dsms:{token}" if token else None)
    retries = Retry(3, backoff_factor=0.1, status_forcelist=(502, 503, 504), raise_on_status=False)
    headers = {"Accept": _TYPE, "Content-Type": _TYPE, **make_headers(basic_auth=user)}
    tls = ClientTls.of(os.environ).context() if ours else None
    pool = PoolManager(headers=headers, retries=retries, timeout=_TIMEOUT_S, ssl_context=tls)
    return pool, parts._replace(auth=None).url.rstrip("/")
