-- Says that an incarnation has taken a fragment over; older ones can write its manifest no more. Returns the token held.
-- A script that begins by removing something is not refused when Redis is full: recovery then makes room.
-- KEYS[1]  hash    dsms:{cluster/fragment}:manifest   fields: token (integer), body (JSON)
-- ARGV[1]  integer the incarnation's token; it grows with every recovery
local held = tonumber(redis.call('HGET', KEYS[1], 'token') or '0')
if held < tonumber(ARGV[1]) then
  redis.call('HDEL', KEYS[1], 'token')
  redis.call('HSET', KEYS[1], 'token', ARGV[1])
  return ARGV[1]
end
return held
