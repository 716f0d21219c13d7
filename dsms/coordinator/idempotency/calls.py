"""Idempotent calls: a call takes effect once, however often it is sent. The same key and body give the same answer.

The steps of a call, and what a crash leaves behind after each:

    begun      the key is stored, with the catalog's version; nothing has been done
    done       the call has taken effect, its answer is not stored yet
    answered   the answer is stored; from here on it is returned again

A call that was begun but has no answer is run again if it cannot take effect twice: if it only reads, or if it changes
only the catalog and the catalog has not changed since. Otherwise its outcome is reported as unknown.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

import msgspec
import structlog

from connectors.state.store import AnswerStore
from operators.core.decoding import Malformed, decoded
from operators.core.errors import ExternalError, UserError

log = structlog.get_logger()

#: A longer answer is not stored: the call is treated as begun but not answered.
MAX_BYTES = 512 * 1024
#: Statuses of transient answers: a time-out, too many calls, the client has disconnected.
_TRANSIENT = (408, 429, 499)


class WrongBody(UserError):
    """The key was used for a call with another body."""


class Underway(UserError):
    """A call with this key is running."""


class OutcomeUnknown(UserError):
    """The call was begun, and it is not known whether it took effect."""


@dataclass(frozen=True)
class Answer:
    """The answer of a call: HTTP status and body."""

    status: int
    body: bytes


class Entry(msgspec.Struct, frozen=True):
    """A stored call: the hash of its content, the process that began it, the catalog's version then, and the answer."""

    asked: str
    owner: str
    version: int
    status: int | None = None
    body: bytes = b""


@dataclass(frozen=True)
class Call:
    """A call that is to take effect once: its key, its content (two calls with the same key must have the same), and
    the current version of the catalog. `repeatable` says whether the call can be run again without harm, given the
    catalog's version when it was first begun."""

    key: str
    content: bytes
    version: int
    repeatable: Callable[[int], bool]


class IdempotentCalls:
    """Runs each call once. Each process is a different owner. A call that another owner has begun is no longer running,
    as only one coordinator leads."""

    def __init__(self, store: AnswerStore) -> None:
        self._store = store
        self._owner = uuid.uuid4().hex
        self._underway: set[str] = set()
        self._lock = threading.Lock()

    def run(self, call: Call, act: Callable[[], Answer]) -> Answer:
        """The answer of the call, computed now or stored before. An answer of status 500 or more, or a transient one,
        is not stored: the call may be sent again. Raises Underway if the call is running, WrongBody if the key was used
        for another content, OutcomeUnknown if the call may have taken effect before."""
        name = sha256(call.key.encode()).hexdigest()
        with self._lock:
            if name in self._underway:
                raise Underway("a call with this idempotency key is running", hint="try again later")
            self._underway.add(name)
        try:
            return self._run(name, call, act)
        finally:
            with self._lock:
                self._underway.discard(name)

    def _run(self, name: str, call: Call, act: Callable[[], Answer]) -> Answer:
        begun = Entry(sha256(call.content).hexdigest(), self._owner, call.version)
        body = msgspec.json.encode(begun)
        earlier = self._store.begin(name, body)
        if earlier is not None:
            kept = _entry(earlier)
            if kept.asked != begun.asked:
                raise WrongBody(
                    "this idempotency key was used for a call with another body", hint="use a new key for a new call"
                )
            if kept.status is not None:
                return Answer(kept.status, kept.body)
            self._take_over(name, call, kept, (earlier, body))
        answer = act()
        if answer.status < 500 and answer.status not in _TRANSIENT and len(answer.body) <= MAX_BYTES:
            answered = msgspec.structs.replace(begun, status=answer.status, body=answer.body)
            self._keep(name, body, msgspec.json.encode(answered))
        return answer

    def _take_over(self, name: str, call: Call, kept: Entry, entries: tuple[bytes, bytes]) -> None:
        if not call.repeatable(kept.version):
            hint = "check whether it took effect; if not, send it again with a new key"
            raise OutcomeUnknown("the call with this key was begun, but its outcome is not known", hint=hint)
        if not self._store.replace(name, *entries):
            raise Underway("a call with this idempotency key is running", hint="try again later")

    def _keep(self, name: str, expected: bytes, entry: bytes) -> None:
        """Stores the answer. A failure is only logged: the call has been done either way."""
        try:
            self._store.replace(name, expected, entry)
        except ExternalError as error:
            log.warning("an answer could not be kept for its idempotency key", reason=str(error))


def _entry(body: bytes) -> Entry:
    """A stored entry. Raises OutcomeUnknown for an invalid one: its call may have taken effect."""
    try:
        entry: Entry = decoded(body, Entry)
    except Malformed as error:
        log.warning("the stored answer of an idempotency key is invalid", reason=str(error))
        hint = "check whether it took effect; if not, send it again with a new key"
        raise OutcomeUnknown("the call with this key was begun, but its outcome is not known", hint=hint) from error
    return entry
