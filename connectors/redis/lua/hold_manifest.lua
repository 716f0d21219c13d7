-- Claims a fragment for an incarnation and replaces its manifest if one is given; older incarnations can no longer write
-- it. Returns 1, or 0 if a newer incarnation has claimed the fragment: then nothing is changed.
-- A script that starts by removing something is not refused when Redis is full; recovery then frees memory.
-- KEYS[1]  hash    dsms:{cluster/fragment}:manifest   fields: lease, token (integers), body (JSON)
-- ARGV[1]  integer the lease under which it runs
-- ARGV[2]  integer the incarnation's token; it grows with every recovery under one lease
-- ARGV[3]  string  the new manifest as JSON; without it the manifest stays
local function number(text)
  return text and #text < 16 and string.match(text, '^%-?%d+$') and tonumber(text) or 0
end
-- What is no such hash is removed: nobody here wrote it.
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then
  redis.call('DEL', KEYS[1])
end
local held = redis.call('HMGET', KEYS[1], 'lease', 'token')
local lease, token = number(held[1]), number(held[2])
-- Leases and tokens are times in milliseconds: one of more than ten days ahead was given to nobody.
local latest = tonumber(redis.call('TIME')[1]) * 1000 + 864000000
if lease > latest or token > latest then
  lease, token = 0, 0
end
local mine = tonumber(ARGV[1])
if lease > mine or (lease == mine and token > tonumber(ARGV[2])) then
  return 0
end
redis.call('HDEL', KEYS[1], 'token')
redis.call('HSET', KEYS[1], 'lease', ARGV[1], 'token', ARGV[2])
if ARGV[3] then
  redis.call('HSET', KEYS[1], 'body', ARGV[3])
end
return 1
