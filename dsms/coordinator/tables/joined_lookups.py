"""Look-ups by key of many clients, answered together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from dsms.coordinator.tables.point_selects import Lookup
from dsms.model.no_final_instant import NoFinalInstant
from dsms.model.statement_result import StatementResult
from operators.core.errors import DsmsError

Answer = StatementResult | DsmsError
_Waiting = list[tuple[Lookup, "asyncio.Future[Answer]"]]


class JoinedLookups:
    """Answers look-ups on an event loop, to which it belongs, by a blocking function in a thread.

    The law: a look-up is answered by a call of the function that begins after the look-up came, so it sees all that was
    committed before. There is one call at a time for each view; look-ups in the view that come meanwhile share the next
    call, and with it the thread and the requests to Kafka.
    """

    def __init__(self, function: Callable[[Sequence[Lookup]], list[Answer]]) -> None:
        self._function = function
        #: The look-ups that wait for the next call, by the ids of the views for which a call is under way.
        self._waiting: dict[str, _Waiting] = {}

    def answer(self, lookup: Lookup) -> asyncio.Future[Answer]:
        """The answer, which may be an error."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if (waiting := self._waiting.get(lookup.select.view.id)) is not None:
            waiting.append((lookup, answer))
        else:
            self._call(lookup.select.view.id, [(lookup, answer)])
        return answer

    def _call(self, view: str, asked: _Waiting) -> None:
        self._waiting[view] = []
        call = asyncio.get_running_loop().run_in_executor(None, self._function, [lookup for lookup, _ in asked])
        call.add_done_callback(partial(self._ended, view, asked))

    def _ended(self, view: str, asked: _Waiting, call: asyncio.Future[list[Answer]]) -> None:
        if waiting := self._waiting.pop(view):
            self._call(view, waiting)
        error = asyncio.CancelledError() if call.cancelled() else call.exception()
        for at, (_, answer) in enumerate(asked):
            if answer.done():
                continue
            if error is None:
                answer.set_result(call.result()[at])
            else:
                answer.set_exception(error)


def result_unless_waiting(answer: Answer, wait_s: float) -> StatementResult | None:
    """The result of a look-up; None if its view has no final instant yet, and the caller waits for one, which a look-up
    does not. Raises every other error."""
    return None if isinstance(answer, NoFinalInstant) and wait_s else result_or_raise(answer)


def result_or_raise(answer: Answer) -> StatementResult:
    """The result of a look-up. Raises its error."""
    if isinstance(answer, DsmsError):
        raise answer
    return answer
