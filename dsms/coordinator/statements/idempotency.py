"""Calls that are done once, however often they are sent: the same key and body give the same answer.

The order, with what a crash in between leaves:

    begun      the key is known, with the catalog's version; nothing has been done
    done       the effect is there, the answer is not kept yet
    answered   the answer is kept, and given again from here on

A call whose answer is missing is begun again where that cannot do anything twice: when it only reads, or when it
changes nothing but the catalog and the catalog has not changed since. Otherwise its outcome is unknown, and said so.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

import msgspec
import structlog

from connectors.redis.client import connect
from connectors.redis.errors import translated
from operators.core.errors import ExternalError, UserError

log = structlog.get_logger()

TTL_S = 24 * 3600
MOST_KEYS = 10_000
#: A longer answer is not kept: the call counts as one without an answer.
MOST_BYTES = 512 * 1024

_BEGIN = """
local held = redis.call('GET', KEYS[1])
if held then return held end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', ARGV[2] - ARGV[3])
redis.call('ZADD', KEYS[2], ARGV[2], KEYS[1])
local over = redis.call('ZCARD', KEYS[2]) - ARGV[4]
if over > 0 then
  local old = redis.call('ZPOPMIN', KEYS[2], over)
  for at = 1, #old, 2 do redis.call('DEL', old[at]) end
end
return false
"""
_REPLACE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
return 1
"""


class WrongBody(UserError):
    """The key was used for another call."""


class Underway(UserError):
    """The call is being done."""


class OutcomeUnknown(UserError):
    """The call was begun, and nobody knows how far it came."""


@dataclass(frozen=True)
class Answer:
    """What was answered."""

    status: int
    body: bytes


class Entry(msgspec.Struct, frozen=True):
    """A call by what it asks for, who began it at which version of the catalog, and the answer if there is one."""

    asked: str
    owner: str
    version: int
    status: int | None = None
    body: bytes = b""


class AnswerStore(Protocol):
    """Entries by key; bounded in time and number. Calls raise ExternalError when it cannot be reached."""

    def begin(self, key: str, entry: bytes) -> bytes | None:
        """Keeps an entry unless there is one, which is given then."""
        ...

    def replace(self, key: str, held: bytes, entry: bytes) -> bool:
        """Puts an entry in the place of one; False when that is there no more."""
        ...


class RedisAnswers:
    """Entries in Redis: they outlive the coordinator."""

    def __init__(self, url: str, cluster: str, most: int = MOST_KEYS, ttl_s: int = TTL_S) -> None:
        client = connect(url)
        self._prefix = "dsms:{" + cluster + "}:answer"
        self._bounds = (ttl_s, most)
        self._begin, self._replace = client.register_script(_BEGIN), client.register_script(_REPLACE)

    def begin(self, key: str, entry: bytes) -> bytes | None:
        """Keeps an entry unless there is one, which is given then."""
        with translated("looking up an idempotency key"):
            held = self._begin(keys=[self._name(key), f"{self._prefix}s"], args=[entry, time.time(), *self._bounds])
        return bytes(held) if held else None

    def replace(self, key: str, held: bytes, entry: bytes) -> bool:
        """Puts an entry in the place of one."""
        with translated("keeping an answer"):
            return bool(self._replace(keys=[self._name(key)], args=[held, entry]))

    def _name(self, key: str) -> str:
        return f"{self._prefix}:{key}"


@dataclass(frozen=True)
class Call:
    """A call as it is done once: its key, what tells it from others, the catalog's version now, and whether beginning
    it again is harmless when the catalog had a version at its first beginning."""

    key: str
    content: bytes
    version: int
    harmless: Callable[[int], bool]


class Once:
    """Does calls once. `owner` is this process: who else began a call does not do it any more."""

    def __init__(self, store: AnswerStore) -> None:
        self._store = store
        self._owner = uuid.uuid4().hex
        self._underway: set[str] = set()
        self._lock = threading.Lock()

    def run(self, call: Call, act: Callable[[], Answer]) -> Answer:
        """The answer of the call, done now or kept from before; Underway, WrongBody or OutcomeUnknown instead of doing
        it twice. An answer of 500 and more is none: the call may be sent again."""
        name = sha256(call.key.encode()).hexdigest()
        with self._lock:
            if name in self._underway:
                raise Underway("the call with this idempotency key is being done", hint="ask again a little later")
            self._underway.add(name)
        try:
            return self._run(name, call, act)
        finally:
            with self._lock:
                self._underway.discard(name)

    def _run(self, name: str, call: Call, act: Callable[[], Answer]) -> Answer:
        mine = Entry(sha256(call.content).hexdigest(), self._owner, call.version)
        body = msgspec.json.encode(mine)
        held = self._store.begin(name, body)
        if held is not None:
            kept = msgspec.json.decode(held, type=Entry)
            if kept.asked != mine.asked:
                raise WrongBody("this idempotency key was used for another body", hint="use a new key for a new call")
            if kept.status is not None:
                return Answer(kept.status, kept.body)
            self._take_over(name, call, kept, (held, body))
        answer = act()
        if answer.status < 500 and len(answer.body) <= MOST_BYTES:
            done = msgspec.structs.replace(mine, status=answer.status, body=answer.body)
            self._keep(name, body, msgspec.json.encode(done))
        return answer

    def _take_over(self, name: str, call: Call, kept: Entry, entries: tuple[bytes, bytes]) -> None:
        if not call.harmless(kept.version):
            hint = "look whether it was done, then send it with a new key"
            raise OutcomeUnknown("the call with this key was begun, but its end is not known", hint=hint)
        if not self._store.replace(name, *entries):
            raise Underway("the call with this idempotency key is being done", hint="ask again a little later")

    def _keep(self, name: str, held: bytes, entry: bytes) -> None:
        """What was done was done, whether its answer can be kept or not."""
        try:
            self._store.replace(name, held, entry)
        except ExternalError as error:
            log.warning("an answer could not be kept for its idempotency key", reason=str(error))
