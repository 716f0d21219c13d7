-- Replaces the manifest of a fragment, unless a newer incarnation holds it. Returns 1 if replaced, 0 if refused.
-- A script that begins by removing something is not refused when Redis is full.
-- KEYS[1]  hash    dsms:{cluster/fragment}:manifest   fields: lease, token (integers), body (JSON)
-- ARGV[1]  integer the lease under which the writer runs
-- ARGV[2]  integer the writer's incarnation token; it grows with every recovery under one lease
-- ARGV[3]  string  the new manifest as JSON
local held = redis.call('HMGET', KEYS[1], 'lease', 'token')
local lease, token = tonumber(held[1] or '0'), tonumber(held[2] or '0')
local mine = tonumber(ARGV[1])
if lease > mine or (lease == mine and token > tonumber(ARGV[2])) then
  return 0
end
redis.call('HDEL', KEYS[1], 'token')
redis.call('HSET', KEYS[1], 'lease', ARGV[1], 'token', ARGV[2], 'body', ARGV[3])
return 1
