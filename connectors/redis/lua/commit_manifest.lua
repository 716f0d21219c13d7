-- Replaces the manifest of a fragment, unless a newer incarnation has written it. Returns 1 if replaced, 0 if refused.
-- A script that begins by removing something is not refused when Redis is full.
-- KEYS[1]  hash    dsms:{cluster/fragment}:manifest   fields: token (integer), body (JSON)
-- ARGV[1]  integer the writer's incarnation token; it grows with every recovery
-- ARGV[2]  string  the new manifest as JSON
local held = tonumber(redis.call('HGET', KEYS[1], 'token') or '0')
if held > tonumber(ARGV[1]) then
  return 0
end
redis.call('HDEL', KEYS[1], 'token')
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'body', ARGV[2])
return 1
