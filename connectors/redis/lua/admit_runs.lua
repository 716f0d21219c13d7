-- Enters runs of a fragment into the account, smallest first, as long as the total stays within a limit; returns how many.
-- Earlier entries of the runs are removed first, so a task may be retried; and a script that starts by removing something
-- is not refused when Redis is full.
-- KEYS[1]  hash    dsms:{cluster/fragment}:resident   field: a run's name, value: its bytes; field "": the sum of all
-- ARGV[1]  integer the limit in bytes; -1 for none
-- ARGV[2…] string, integer  the name and the bytes of each run, by bytes
local function number(text)
  return text and #text < 16 and string.match(text, '^%-?%d+$') and tonumber(text) or 0
end
-- What is no such hash is removed: nobody here wrote it.
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
