"""What a coordinator refuses, as exceptions of our tree: `except UserError` and the like go on to work.

ApiError                 kind, message, hint, status; line and column where a text is wrong
├── StatementError       a statement is wrong at a line and a column          SqlError
├── Refused              the request is wrong                                 UserError
│   ├── NotFound         no object has the name
│   ├── Unauthorized     no token, or an unknown one
│   ├── Forbidden        the token's role is too small
│   ├── PositionGone     a result was made anew, or its records are gone
│   ├── OutcomeUnknown   the call was begun once, and nobody knows how far it came
│   ├── NotCovered       a result does not cover records in time
│   └── RecordRefused    published records are in no result, because they were refused
├── Unavailable          nobody answers, or what the coordinator needs is away ExternalError
└── ServerDefect         a defect of the coordinator                          InternalError
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from operators.core.errors import DsmsError, ExternalError, InternalError, SqlError, UserError


class ApiError(DsmsError):
    """The root. `kind` is the interface's word for it, `status` the HTTP status, 0 where there was no answer."""

    kind: str = ""
    status: int = 0


class StatementError(ApiError, SqlError):
    """A statement is wrong at `line` and `column`."""

    kind = "sql"


class Refused(ApiError, UserError):
    """The request is wrong; repeating it does not help."""

    kind = "user"
    line: ClassVar[int | None] = None
    column: ClassVar[int | None] = None


class NotFound(Refused):
    """No object has the name; the hint lists those there are."""


class Unauthorized(Refused):
    """A token is needed, or it is unknown."""


class Forbidden(Refused):
    """The token's role is too small."""


class PositionGone(Refused):
    """A position in a result that cannot be gone on from."""


class OutcomeUnknown(Refused):
    """The call was begun once before, and nobody knows how far it came."""


class NotCovered(Refused):
    """A result does not cover records within the time; `cover` says how far it is."""

    cover: Any = None


class RecordRefused(Refused):
    """Published records were refused; `cover` says which and why."""

    cover: Any = None


class Unavailable(ApiError, ExternalError):
    """Nobody answers, or what the coordinator needs is away; `retry_after_s` is what it asks to wait."""

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
    "not-found": NotFound, "unauthorized": Unauthorized, "forbidden": Forbidden, "gone": PositionGone,
    "unknown": OutcomeUnknown, "user": Refused,
}  # fmt: skip
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
    """The exception of an answer that is none of success.

    >>> body = b'{"error": {"kind": "sql", "message": "no table", "hint": "have: t", "line": 2, "column": 3}}'
    >>> error = error_of("http://localhost", 400, {}, body)
    >>> type(error).__name__, error.kind, error.line, error.column, error.hint
    ('StatementError', 'sql', 2, 3, 'have: t')
    """
    try:
        detail = msgspec.json.decode(body, type=_Body).error
    except msgspec.DecodeError:
        hint = "check the address"
        found: ApiError = Unavailable(f'"{url}" answers {status} and is no coordinator', hint=hint, retryable=False)
    else:
        found = _error(detail)
        found.kind = detail.kind
    found.status = status
    if isinstance(found, Unavailable):
        found.retry_after_s = _seconds(headers.get("retry-after"))
    return found


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
    """Nobody answers at the address."""
    return Unavailable(
        f'no coordinator at "{url}": {reason}', hint='start one with "dsms up", or give --coordinator URL'
    )
