-- Removes runs of a fragment from Redis and from the account.
-- KEYS[1]  hash    dsms:{cluster/fragment}:resident   field: a run's name, value: its bytes; field "": the sum of all
-- KEYS[2…] hash    dsms:{cluster/fragment}:run:<name>  the pieces of each run
-- ARGV     string  the name of each run
local sum = tonumber(redis.call('HGET', KEYS[1], '') or '0')
for at, name in ipairs(ARGV) do
  redis.call('UNLINK', KEYS[at + 1])
  sum = sum - tonumber(redis.call('HGET', KEYS[1], name) or '0')
  redis.call('HDEL', KEYS[1], name)
end
redis.call('HSET', KEYS[1], '', string.format('%d', sum))
return #ARGV
