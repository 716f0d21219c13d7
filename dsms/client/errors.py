"""The errors of a coordinator as exceptions. Each also derives from the class of `operators.core.errors` at its right.

ApiError                 kind, message, hint, status; line and column of an error in a text
├── StatementError       a statement is invalid at a line and column          SqlError
├── Refused              the request is invalid                               UserError
│   ├── NotFound         no object has this name
│   ├── Unauthorized     no token, or an unknown one
│   ├── Forbidden        the role of the token does not permit it
│   ├── PositionGone     the result was re-created, or its records are gone
│   ├── OutcomeUnknown   an earlier attempt may have taken effect
│   ├── NotCovered       a result did not cover records in time
│   └── RecordRefused    published records were refused
├── Unavailable          no answer, or a service is unavailable               ExternalError
└── ServerDefect         a defect of the coordinator                          InternalError
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from operators.core.errors import DsmsError, ExternalError, InternalError, SqlError, UserError


class ApiError(DsmsError):
    """The root. `kind` is the error kind of the HTTP interface, `status` the HTTP status, 0 if there was no answer."""

    kind: str = ""
    status: int = 0


class StatementError(ApiError, SqlError):
    """A statement is invalid at `line` and `column`."""

    kind = "sql"


class Refused(ApiError, UserError):
    """The request is invalid; sending it again does not help."""

    kind = "user"
    line: ClassVar[int | None] = None
    column: ClassVar[int | None] = None


class NotFound(Refused):
    """No object has this name; the hint lists those that exist."""


class Unauthorized(Refused):
    """The token is missing or unknown."""


class Forbidden(Refused):
    """The role of the token does not permit the request."""


class PositionGone(Refused):
    """The position in a result is no longer valid."""


class OutcomeUnknown(Refused):
    """An earlier attempt of the call was interrupted; whether it took effect is unknown."""


class NotCovered(Refused):
    """A result did not cover records in time; `cover` shows its progress."""

    cover: Any = None


class RecordRefused(Refused):
    """Published records were refused; `cover` lists them with the reasons."""

    cover: Any = None


class Unavailable(ApiError, ExternalError):
    """The coordinator, or a service that it needs, does not answer; `retry_after_s` is the pause that it asks for."""

    kind = "external"
    retry_after_s: float | None = None
    line: ClassVar[int | None] = None
    column: ClassVar[int | None] = None


class ServerDefect(ApiError, InternalError):
    """A defect of the coordinator."""

    kind = "internal"
    line: ClassVar[int | None] = None
    column: ClassVar[int | None] = None


_REFUSED: dict[str, type[Refused]] = {
    "not-found": NotFound,
    "unauthorized": Unauthorized,
    "forbidden": Forbidden,
    "gone": PositionGone,
    "unknown": OutcomeUnknown,
    "user": Refused,
}
_PASSING = {"external", "busy", "underway"}


class _Detail(msgspec.Struct):
    kind: str
    message: str
    hint: str | None = None
    line: int | None = None
    column: int | None = None


class _Body(msgspec.Struct):
    error: _Detail


def error_of(url: str, status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """The exception for an answer that is not a success.

    >>> body = b'{"error": {"kind": "sql", "message": "no table", "hint": "have: t", "line": 2, "column": 3}}'
    >>> error = error_of("http://localhost", 400, {}, body)
    >>> type(error).__name__, error.kind, error.line, error.column, error.hint
    ('StatementError', 'sql', 2, 3, 'have: t')
    """
    try:
        detail = msgspec.json.decode(body, type=_Body).error
    except msgspec.DecodeError:
        hint = "check the url"
        error: ApiError = Unavailable(f'"{url}" answers {status} and is not a coordinator', hint=hint, retryable=False)
    else:
        error = _error(detail)
        error.kind = detail.kind
    error.status = status
    if isinstance(error, Unavailable):
        error.retry_after_s = _seconds(headers.get("retry-after"))
    return error


def _error(detail: _Detail) -> ApiError:
    hint = detail.hint or ""
    if detail.kind == "sql":
        return StatementError(detail.message, line=detail.line or 1, column=detail.column or 1, hint=hint)
    if detail.kind in _PASSING:
        return Unavailable(detail.message, hint=hint)
    if detail.kind == "internal":
        return ServerDefect(detail.message, hint=hint)
    return _REFUSED.get(detail.kind, Refused)(detail.message, hint=hint)


def _seconds(text: str | None) -> float | None:
    return float(text) if text and text.isdigit() else None


def unreachable(url: str, reason: object) -> Unavailable:
    """The exception for a coordinator that does not answer."""
    return Unavailable(
        f'no coordinator at "{url}": {reason}', hint='start one with "dsms up", or pass --coordinator URL'
    )
