"""The header `Idempotency-Key`: calls over HTTP that are done once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Protocol

from fastapi import Header, Request, Response

from dsms.coordinator.http.access import needed_for
from dsms.coordinator.http.errors import dsms_error_response
from dsms.coordinator.http.service import Service
from dsms.coordinator.idempotency.calls import Answer, Call, Once
from dsms.model import statements as st
from dsms.sql.parser.parse import parse
from operators.core.errors import DsmsError, SqlError

IdempotencyKey = Annotated[
    str | None,
    Header(min_length=1, max_length=200, description="the same key and body give the same answer, and are done once"),
]
_ROWS = (st.Insert, st.Update, st.Delete, st.LoadFile, st.LoadDatabase)


class Effects(Protocol):
    """What is known of a call's effects before it is done."""

    @property
    def version(self) -> Callable[[], int]:
        """Asks for the version of the catalog."""
        ...

    def harmless(self, version: int) -> bool:
        """Whether the call, first begun at a version of the catalog, can be begun again without doing it twice."""
        ...


class StatementEffects:
    """The effects of SQL: none of text that only reads or does not parse; rows; else objects of the catalog."""

    def __init__(self, service: Service, sql: str) -> None:
        self._service = service
        try:
            found = list(parse(sql))
        except SqlError:
            found = []
        self._reads = all(needed_for(one) == "reader" for one in found)
        self._rows = any(isinstance(one, _ROWS) for one in found)
        self._version = 0

    def version(self) -> int:
        """The version of the catalog; where nothing is written it does not matter."""
        self._version = 0 if self._reads else self._service.settled_version()
        return self._version

    def harmless(self, version: int) -> bool:
        """Whether beginning again does nothing twice."""
        return self._reads or (not self._rows and version == self._version)


def once_response(
    once: Once, request: Request, key: str | None, content: bytes, act: Callable[[], Response], effects: Effects
) -> Response:
    """The response of a call that is done once if it has a key; a kept one says so in `Idempotency-Replayed`."""
    if key is None:
        return act()
    done: list[Response] = []

    def answer() -> Answer:
        done.append(_responded(request, act))
        return Answer(done[0].status_code, bytes(done[0].body))

    role = str(getattr(request.state, "role", ""))
    scope = f"{request.method}\0{request.url.path}\0{role}\0".encode()
    found = once.run(Call(key, scope + content, effects.version(), effects.harmless), answer)
    replayed = {"Idempotency-Replayed": "true"}
    return done[0] if done else Response(found.body, found.status, replayed, media_type="application/json")


def _responded(request: Request, act: Callable[[], Response]) -> Response:
    try:
        return act()
    except DsmsError as error:
        return dsms_error_response(request, error)
