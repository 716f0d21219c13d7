"""The answers of idempotent calls in Redis, where they outlive the coordinator."""

from __future__ import annotations

import time

import redis

from connectors.redis.errors import translated
from connectors.state.store import MAX_KEYS, TTL_S

_BEGIN = """
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'string' and kind ~= 'none' then return 'no entry' end
if redis.call('TYPE', KEYS[2]).ok ~= 'zset' then redis.call('DEL', KEYS[2]) end
local held = redis.call('GET', KEYS[1])
if held then return held end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', ARGV[2] - ARGV[3])
redis.call('ZADD', KEYS[2], ARGV[2], KEYS[1])
local over = redis.call('ZCARD', KEYS[2]) - ARGV[4]
if over > 0 then
  local old = redis.call('ZPOPMIN', KEYS[2], over)
  local prefix = string.sub(KEYS[2], 1, -2) .. ':'
  for at = 1, #old, 2 do
    if string.sub(old[at], 1, #prefix) == prefix then redis.call('DEL', old[at]) end
  end
end
return false
"""
_REPLACE = """
if redis.call('TYPE', KEYS[1]).ok ~= 'string' then return 0 end
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
return 1
"""


class RedisAnswers:
    """Implements `connectors.state.store.AnswerStore`."""

    def __init__(self, client: redis.Redis, cluster: str, most: int = MAX_KEYS, ttl_s: int = TTL_S) -> None:
        self._prefix = "dsms:{" + cluster + "}:answer"
        self._bounds = (ttl_s, most)
        self._begin, self._replace = client.register_script(_BEGIN), client.register_script(_REPLACE)

    def begin(self, key: str, entry: bytes) -> bytes | None:
        """Stores the entry and returns None; if the key has an entry already, returns that one instead."""
        with translated("looking up an idempotency key"):
            earlier = self._begin(keys=[self._name(key), f"{self._prefix}s"], args=[entry, time.time(), *self._bounds])
        return bytes(earlier) if earlier else None

    def replace(self, key: str, expected: bytes, entry: bytes) -> bool:
        """Replaces the entry if it equals `expected`; False if the key has another entry or none."""
        with translated("keeping an answer"):
            return bool(self._replace(keys=[self._name(key)], args=[expected, entry]))

    def _name(self, key: str) -> str:
        return f"{self._prefix}:{key}"
