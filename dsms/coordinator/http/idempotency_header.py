"""The header `Idempotency-Key`: HTTP calls that take effect once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Protocol

from fastapi import Header, Request, Response

from dsms.coordinator.http.caller_services import caller_of
from dsms.coordinator.http.errors import dsms_error_response
from dsms.coordinator.http.permitted import PermittedService
from dsms.coordinator.idempotency.calls import Answer, Call, IdempotentCalls
from operators.core.errors import DsmsError, UserError

IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=200,
        description="calls with the same key and body take effect once and get the same answer",
    ),
]


class Effects(Protocol):
    """What is known about the effects of a call before it runs."""

    @property
    def version(self) -> Callable[[], int]:
        """A function that returns the version of the catalog."""
        ...

    def repeatable(self, version: int) -> bool:
        """Whether the call, first begun at this version of the catalog, can run again without taking effect twice."""
        ...


class StatementEffects:
    """The effects of a script: none if it only reads or does not parse; otherwise it changes rows or objects of the
    catalog. A SELECT over a declared stream creates a query, so it depends on the catalog what a script does."""

    def __init__(self, service: PermittedService, sql: str) -> None:
        self._service = service
        try:
            changes = [kind for kind in service.kinds(sql) if not kind.reads_only]
        except UserError:
            changes = []
        self._reads = not changes
        self._records = any(kind.writes_records for kind in changes)
        self._version = 0

    def version(self) -> int:
        """The version of the catalog; 0 for a script that only reads, which does not depend on it."""
        self._version = 0 if self._reads else self._service.settled_version()
        return self._version

    def repeatable(self, version: int) -> bool:
        """Whether the script can run again without taking effect twice."""
        return self._reads or (not self._records and version == self._version)


def once_response(
    once: IdempotentCalls,
    request: Request,
    key: str | None,
    content: bytes,
    act: Callable[[], Response],
    effects: Effects,
) -> Response:
    """The response of a call, which takes effect once if it has a key. A stored response has the header
    `Idempotency-Replayed`."""
    if key is None:
        return act()
    responses: list[Response] = []

    def answer() -> Answer:
        response = _responded(request, act)
        responses.append(response)
        return Answer(response.status_code, bytes(response.body))

    principal = caller_of(request).principal
    scope = f"{request.method}\0{request.url.path}\0{principal.role}\0".encode()
    kept = once.run(Call(f"{principal.name}/{key}", scope + content, effects.version(), effects.repeatable), answer)
    if responses:
        return responses[0]
    return Response(kept.body, kept.status, {"Idempotency-Replayed": "true"}, media_type="application/json")


def _responded(request: Request, act: Callable[[], Response]) -> Response:
    try:
        return act()
    except DsmsError as error:
        return dsms_error_response(request, error)
