-- Removes runs of a fragment from Redis, and from the account of its memory.
-- KEYS[1]  hash    dsms:{cluster/fragment}:resident   field: a run's name, value: its bytes; field "": the sum of all
-- KEYS[2…] hash    dsms:{cluster/fragment}:run:<name>  the pieces of each run
-- ARGV     string  the name of each run
local function number(text)
  return text and #text < 16 and string.match(text, '^%-?%d+$') and tonumber(text) or 0
end
-- A value of another type is removed: dsms did not write it.
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then
  redis.call('DEL', KEYS[1])
end
local sum = number(redis.call('HGET', KEYS[1], ''))
for at, name in ipairs(ARGV) do
  redis.call('UNLINK', KEYS[at + 1])
  sum = sum - number(redis.call('HGET', KEYS[1], name))
  redis.call('HDEL', KEYS[1], name)
end
redis.call('HSET', KEYS[1], '', string.format('%d', sum))
return #ARGV
