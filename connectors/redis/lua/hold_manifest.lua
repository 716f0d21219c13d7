-- Claims a fragment for an incarnation, and replaces its manifest if one is given. Older incarnations cannot write the
-- manifest any more. Returns 1, or 0 if a newer incarnation has claimed the fragment: in that case nothing changes.
-- When Redis is full, it refuses a script whose first write needs memory. A first write that removes something, and all
-- writes after it, are allowed. A fragment can therefore be claimed even then, and its recovery frees memory.
-- KEYS[1]  hash    dsms:{cluster/fragment}:manifest   fields: lease, token, commit (integers), body (JSON)
-- ARGV[1]  integer the lease under which the incarnation runs
-- ARGV[2]  integer the incarnation's token; it grows with every recovery under one lease
-- ARGV[3]  string  the new manifest as JSON; without it the manifest stays
-- ARGV[4]  integer the number of this commit within the incarnation; one that arrives after a later one changes nothing
local function number(text)
  return text and #text < 16 and string.match(text, '^%-?%d+$') and tonumber(text) or 0
end
-- A value of another type is removed: dsms did not write it.
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then
  redis.call('DEL', KEYS[1])
end
local held = redis.call('HMGET', KEYS[1], 'lease', 'token')
local lease, token = number(held[1]), number(held[2])
-- Leases and tokens are times in milliseconds. One that is more than ten days ahead was never given out: it is ignored.
local latest = tonumber(redis.call('TIME')[1]) * 1000 + 864000000
if lease > latest or token > latest then
  lease, token = 0, 0
end
local mine = tonumber(ARGV[1])
if lease > mine or (lease == mine and token > tonumber(ARGV[2])) then
  return 0
end
if ARGV[4] and lease == mine and token == tonumber(ARGV[2])
  and number(redis.call('HGET', KEYS[1], 'commit')) > tonumber(ARGV[4]) then
  return 1
end
redis.call('HDEL', KEYS[1], 'token', 'commit')
redis.call('HSET', KEYS[1], 'lease', ARGV[1], 'token', ARGV[2])
if ARGV[3] then
  redis.call('HSET', KEYS[1], 'body', ARGV[3], 'commit', ARGV[4] or 0)
end
return 1
