"""Errors as HTTP responses. One table maps classes of errors to status and kind; the first match applies."""

from typing import Literal

import msgspec
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError

from dsms.coordinator.catalog.lookup import Document, UnknownName, error_for
from dsms.coordinator.http.call_rates import TooManyStreams
from dsms.coordinator.idempotency.calls import OutcomeUnknown, Underway, WrongBody
from dsms.coordinator.results.feed import PositionGone, TooManyFeeds
from dsms.coordinator.statements.replacements import BeingReplaced
from dsms.model.limits import SETTING, Limits
from dsms.model.principal import ANYBODY, Forbidden
from dsms.model.statement_result import EncodedRows
from dsms.tables.select_budget import Cancelled, LimitExceeded, TookTooLong, TooManySelects
from operators.core.call_depth import too_deep
from operators.core.errors import DsmsError, ExternalError, SqlError, UserError

#: The kinds of errors, by which clients tell them apart; docs/api.md lists what each one means.
ErrorKind = Literal[
    "sql",
    "user",
    "unauthorized",
    "forbidden",
    "not-found",
    "gone",
    "limit",
    "busy",
    "underway",
    "unknown",
    "external",
    "internal",
]
RETRY_AFTER_S = 1
#: The media type of the schema registry's answers.
REGISTRY_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


class NotAcceptable(UserError):
    """The client accepts none of the formats in which results can be sent."""


class TooLarge(UserError):
    """The body is larger than one call may send."""


_STATUS: tuple[tuple[type[DsmsError], int, ErrorKind], ...] = (
    (SqlError, 400, "sql"),
    (UnknownName, 404, "not-found"),
    (Forbidden, 403, "forbidden"),
    (NotAcceptable, 406, "user"),
    (TooLarge, 413, "user"),
    (PositionGone, 410, "gone"),
    (TooManyFeeds, 429, "busy"),
    (TooManyStreams, 429, "busy"),
    (TooManySelects, 429, "busy"),
    (TookTooLong, 408, "limit"),
    (LimitExceeded, 400, "limit"),
    (Cancelled, 499, "user"),
    (BeingReplaced, 503, "busy"),
    (Underway, 409, "underway"),
    (OutcomeUnknown, 409, "unknown"),
    (WrongBody, 422, "user"),
    (UserError, 400, "user"),
    (ExternalError, 503, "external"),
    (DsmsError, 500, "internal"),
)
#: Kinds of transient errors: the same call may succeed later.
_TRANSIENT = ("external", "busy", "underway")


def error_document(error: DsmsError, kind: ErrorKind) -> Document:
    """The error as JSON. The location in the SQL text is in fields of its own, not in the message.

    >>> error_document(SqlError("no table", line=2, column=3, hint="have: t"), "sql")["error"]
    {'kind': 'sql', 'message': 'no table', 'hint': 'have: t', 'line': 2, 'column': 3}
    """
    line, column, message = None, None, error.message
    if isinstance(error, SqlError):
        line, column = error.line, error.column
        message = message.removeprefix(f"line {line}, column {column}: ")
    return {"error": {"kind": kind, "message": message, "hint": error.hint or None, "line": line, "column": column}}


def json_response(document: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON response for a document that may hold values of rows: decimals and instants become text, bytes base64, NaN
    null."""
    body = msgspec.json.encode(document, enc_hook=_encodable)
    return Response(body, status_code=status, headers=headers, media_type="application/json")


def _encodable(value: object) -> object:
    return msgspec.Raw(value.json) if isinstance(value, EncodedRows) else str(value)


def dsms_error_response(request: Request, error: Exception) -> Response:
    """The response to a `DsmsError`."""
    assert isinstance(error, DsmsError)
    error = error_for(getattr(request.state, "caller", ANYBODY).principal, error)
    status, kind = next((status, kind) for cls, status, kind in _STATUS if isinstance(error, cls))
    headers = {"Retry-After": str(RETRY_AFTER_S)} if kind in _TRANSIENT else None
    return json_response(error_document(error, kind), status, headers)


def too_deep_response(request: Request, error: Exception) -> Response:
    """The response to a call whose input is nested too deeply."""
    return dsms_error_response(request, too_deep())


def too_large_response(limits: Limits, request: Request, error: Exception) -> Response:
    """The response to a body above the size limit."""
    message, hint = f"the body has more than {limits.request_mb} MB", f'the limit "request_mb" is set by {SETTING}'
    return json_response(error_document(TooLarge(message, hint=hint), "user"), 413)


def calls_registry(request: Request) -> bool:
    """Whether the call is to the schema registry, whose errors have a format of their own."""
    return not request.url.path.startswith("/v1/")


def invalid_request_response(request: Request, error: Exception) -> Response:
    """The response to an invalid body or parameter, in the error format of the interface that was called."""
    assert isinstance(error, RequestValidationError)
    reasons = "; ".join(f"{'.'.join(str(part) for part in e['loc'])}: {_reason(e['msg'])}" for e in error.errors())
    if not calls_registry(request):
        return json_response(error_document(UserError(reasons), "user"), 400)
    body = msgspec.json.encode({"error_code": 422, "message": reasons})
    return Response(body, status_code=422, media_type=REGISTRY_MEDIA_TYPE)


def _reason(text: str) -> str:
    """A reason of pydantic in the style of our messages; those of our own checks stay as they are."""
    ours = text.removeprefix("Value error, ")
    return ours[:1].lower() + ours[1:]
