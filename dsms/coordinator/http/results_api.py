"""The HTTP calls that follow the changes of a result, publish to sources, and wait until a result covers writes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, aclosing
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field
from starlette.types import Receive, Scope, Send

from dsms.coordinator.http.access import needs
from dsms.coordinator.http.backend import Backend
from dsms.coordinator.http.call_rates import OpenStreams
from dsms.coordinator.http.caller_services import CallerService, service_of
from dsms.coordinator.http.errors import NotAcceptable, TooLarge, json_response
from dsms.coordinator.http.idempotency_header import IdempotencyKey, once_response
from dsms.coordinator.http.instant_parameter import InstantParameter
from dsms.coordinator.http.models import BAD_REQUEST, UNAVAILABLE, UNKNOWN_NAME, ErrorResponse
from dsms.coordinator.http.permitted import PermittedService
from dsms.coordinator.idempotency.calls import IdempotentCalls
from dsms.coordinator.results.change_documents import Followed
from dsms.coordinator.results.coverage import CoverageQuestion, CoverageReport
from dsms.coordinator.results.events import MEDIA_TYPES, format_of
from dsms.coordinator.results.feed import FeedRequest, From
from dsms.coordinator.results.positions import parse_position

MAX_BYTES = 16 * 1024 * 1024
LONGEST_WAIT_S = 60
_LOOK_S = 0.1
_T = TypeVar("_T")


class PlaceModel(BaseModel):
    """The position of a published record."""

    partition: int
    offset: int
    token: str = Field(description="token of this record, for `covers`", examples=["o1:0/17"])


class PublishedModel(BaseModel):
    """The positions of published records, in the order in which they were sent."""

    records: list[PlaceModel]
    token: str | None = Field(description="token of all records, for `covers`", examples=["o1:0/17-19,1/4"])


class RefusedModel(BaseModel):
    """A record that was refused, with the reason."""

    partition: int
    offset: int
    reason: str
    query: str | None = Field(description="the query that failed on the row; null: the source refused the record")


class CoverModel(BaseModel):
    """Whether a result covers published records, and how far the result has progressed."""

    covered: bool = Field(description="whether the result is final and has the effect of all records")
    processed: bool = Field(description="whether the query has read all records")
    instant: int | None = Field(
        description="the greatest instant of the records; null: the source can decode none of them"
    )
    frontier: int | None = Field(description="below it the result is final")
    offsets: dict[str, int] = Field(description="the next offset that the query reads, by partition of the source")
    refused: list[RefusedModel] = Field(description="records that are in no result because they were refused")
    error: str | None = Field(description="why the query has stopped")


_STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {media: {"schema": {"type": "string"}} for media in MEDIA_TYPES.values()}},
    406: {"model": ErrorResponse, "description": "the client accepts neither format"},
    410: {
        "model": ErrorResponse,
        "description": "the position does not belong to this result, or its records were deleted",
    },
    429: {"model": ErrorResponse, "description": "too many readers"},
}
_BODY = {"requestBody": {"content": {"application/x-ndjson": {}, "application/json": {}}, "required": True}}
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def results_router(backend: Backend) -> APIRouter:
    """`GET /v1/queries/{name}/changes` and `/covers`, `POST /v1/sources/{name}/records`."""
    router = APIRouter(prefix="/v1", tags=["results"], responses={**BAD_REQUEST, **UNKNOWN_NAME, **UNAVAILABLE})
    _add_changes(router, backend)
    _add_covers(router)
    _add_records(router, backend.once)
    return router


def _add_changes(router: APIRouter, backend: Backend) -> None:
    streams = OpenStreams()

    @router.get(
        "/queries/{name}/changes",
        summary="Follow the changes of a view, query or table",
        response_class=StreamingResponse,
        responses=_STREAM,
    )
    async def changes(
        request: Request,
        name: str,
        after: Annotated[str | None, Query(description="continue after this token")] = None,
        start: Annotated[From, Query(alias="from", description="where to start without a token")] = "earliest",
        follow: Annotated[bool, Query(description="whether to wait for later changes")] = True,
        last: Annotated[
            str | None, Header(alias="Last-Event-ID", description="like `after`, but takes precedence over it")
        ] = None,
    ) -> Response:
        feed_format = format_of(request.headers.get("accept", ""))
        if feed_format is None:
            raise NotAcceptable(
                "results are sent as server-sent events or lines of JSON", hint=" or ".join(MEDIA_TYPES.values())
            )
        position, service = last or after, service_of(request)
        result: Followed = await _in_thread(None, service.results.result, name)
        feed_request = FeedRequest(result, feed_format, parse_position(position) if position else None, start, follow)
        principal = service.caller.principal
        most = principal.limits.streams
        with ExitStack() as until_ended:
            until_ended.enter_context(
                streams.one_more(principal.name, service.limits.token_streams if most is None else most)
            )
            text = await (backend.feeds or service.results.feeds).opened(feed_request)
            permitted = while_permitted(text, principal.until, time.time)
            return _Stream(permitted, MEDIA_TYPES[feed_format], until_ended.pop_all())


async def while_permitted(
    text: AsyncGenerator[bytes, None], until: float | None, clock: Callable[[], float]
) -> AsyncIterator[bytes]:
    """A stream that ends when the reader's token expires: nothing is sent after that time. The stream ends soon after,
    since it sends at least keep-alives. To continue, the client has to send another token."""
    async with aclosing(text):
        async for part in text:
            if until is not None and clock() >= until:
                return
            yield part


class _Stream(StreamingResponse):
    """A stream of changes. Releases what it holds when it ends, even if nothing was sent."""

    def __init__(self, text: AsyncIterator[bytes], media_type: str, held: ExitStack) -> None:
        super().__init__(text, media_type=media_type, headers=_HEADERS)
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the stream."""
        with self._held:
            await super().__call__(scope, receive, send)


def _add_covers(router: APIRouter) -> None:
    pool = ThreadPoolExecutor(4, "covers")

    @router.get(
        "/queries/{name}/covers",
        summary="Wait until a result covers published records",
        description="200 if it does; 202 if it does not in time, or if the query is stopped",
        response_model=CoverModel,
        responses={
            202: {"model": CoverModel, "description": "not yet; the body says how far the result has progressed"}
        },
    )
    async def covers(
        service: CallerService,
        name: str,
        token: Annotated[str, Query(description="token of the records", examples=["o1:0/17"])],
        wait: Annotated[int, Query(ge=0, le=LONGEST_WAIT_S, description="how many seconds to wait at most")] = 0,
    ) -> Response:
        deadline = time.monotonic() + wait
        question: CoverageQuestion | None = None
        while True:
            question = question or await _in_thread(pool, service.results.question, name, token)
            cover = (
                await _in_thread(pool, service.results.cover, question) if question else CoverageReport(covered=False)
            )
            if cover.covered or cover.error or time.monotonic() >= deadline:
                return json_response(_cover_document(cover, question), 200 if cover.covered else 202)
            await asyncio.sleep(_LOOK_S)


def _cover_document(cover: CoverageReport, question: CoverageQuestion | None) -> dict[str, Any]:
    return {
        "covered": cover.covered,
        "processed": cover.processed,
        "instant": question.instant if question else None,
        "frontier": cover.frontier,
        "offsets": dict(cover.offsets or {}),
        "refused": list(cover.refused),
        "error": cover.error,
    }


class PublishableModel(BaseModel):
    """A topic to which records may be published."""

    topic: str
    forced: bool = Field(description="whether the topic belongs to the system and an administrator forces publishing")


def _add_records(router: APIRouter, once: IdempotentCalls) -> None:
    pool = ThreadPoolExecutor(8, "publish")

    @router.get(
        "/topics/{topic}/publishing",
        summary="Whether records may be published to a topic; to those of the system only by force",
        response_model=PublishableModel,
    )
    @needs("writer")
    def publishing(
        service: CallerService,
        topic: str,
        force: Annotated[bool, Query(description="also accept a topic of the system; for administrators only")] = False,
    ) -> Response:
        service.check_published(topic, forced=force)
        return json_response({"topic": topic, "forced": force})

    @router.post(
        "/sources/{name}/records",
        summary="Publish records: a JSON list of objects, or lines of JSON",
        response_model=PublishedModel,
        responses={413: {"model": ErrorResponse, "description": "too large for one call"}},
        openapi_extra=_BODY,
    )
    async def records(
        request: Request,
        service: CallerService,
        name: str,
        key: Annotated[list[str] | None, Query(description="columns of the records' keys")] = None,
        advance: Annotated[
            InstantParameter | None,
            Query(description="promise that no record with an instant below this one will follow"),
        ] = None,
        idempotency_key: IdempotencyKey = None,
    ) -> Response:
        body = await _body(request)

        def send() -> Response:
            return json_response(service.results.publish(name, body, key or [], advance).document())

        content = f"{name}\0{key}\0{advance}\0".encode() + body
        answer = partial(once_response, once, request, idempotency_key, content, send, _Unrepeatable(service))
        return await _in_thread(pool, answer)


class _Unrepeatable:
    """The effects of publishing: records that may have been sent are never sent again."""

    def __init__(self, service: PermittedService) -> None:
        self.version = service.settled_version

    def repeatable(self, version: int) -> bool:
        """False: the records could be published twice."""
        return False


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BYTES:
            raise TooLarge(f"the body has more than {MAX_BYTES} bytes", hint="send it in several calls")
    return bytes(body)


async def _in_thread(pool: ThreadPoolExecutor | None, call: Callable[..., _T], *arguments: object) -> _T:
    """The result of a blocking call in a thread of the pool; None means the event loop's own pool."""
    return await asyncio.get_running_loop().run_in_executor(pool, call, *arguments)
