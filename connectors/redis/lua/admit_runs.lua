-- Enters runs of a fragment into the account of its memory, smallest first, while the total stays within a limit.
-- Returns the number of runs entered. Earlier entries of the runs are removed first, so that a task can be retried.
-- When Redis is full, it refuses a script whose first write needs memory. A first write that removes something, and all
-- writes after it, are allowed.
-- KEYS[1]  hash    dsms:{cluster/fragment}:resident   field: a run's name, value: its bytes; field "": the sum of all
-- ARGV[1]  integer the limit in bytes; -1 for none
-- ARGV[2…] string, integer  the name and the bytes of each run, in ascending order of bytes
local function number(text)
  return text and #text < 16 and string.match(text, '^%-?%d+$') and tonumber(text) or 0
end
-- A value of another type is removed: dsms did not write it.
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then
  redis.call('DEL', KEYS[1])
end
local held = {}
for at = 2, #ARGV, 2 do
  held[at] = number(redis.call('HGET', KEYS[1], ARGV[at]))
  redis.call('HDEL', KEYS[1], ARGV[at])
end
local sum = number(redis.call('HGET', KEYS[1], ''))
for _, bytes in pairs(held) do
  sum = sum - bytes
end
local limit, admitted = tonumber(ARGV[1]), 0
for at = 2, #ARGV, 2 do
  local bytes = tonumber(ARGV[at + 1])
  if limit >= 0 and sum + bytes > limit then
    break
  end
  sum, admitted = sum + bytes, admitted + 1
  redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 1])
end
redis.call('HSET', KEYS[1], '', string.format('%d', sum))
return admitted
