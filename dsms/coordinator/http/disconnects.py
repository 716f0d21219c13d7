"""Blocking calls that may end early when their client disconnects."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool


async def while_connected(call: Request, act: Callable[[threading.Event], Response]) -> Response:
    """Runs a blocking call in a thread and returns its response. The event passed to it is set when the client
    disconnects."""
    cancelled = threading.Event()
    work = asyncio.ensure_future(run_in_threadpool(act, cancelled))
    gone = asyncio.ensure_future(_disconnected(call))
    try:
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            cancelled.set()
        return await work
    finally:
        cancelled.set()
        gone.cancel()


async def _disconnected(call: Request) -> None:
    while (await call.receive())["type"] != "http.disconnect":
        pass
