-- Replaces a document. It is removed first: a script that begins by removing something is not refused when Redis is full.
-- KEYS[1]  string  the document
-- ARGV[1]  string  what it is from now on
-- ARGV[2]  integer the milliseconds after which it is forgotten; 0: never
redis.call('DEL', KEYS[1])
if tonumber(ARGV[2]) > 0 then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
else
  redis.call('SET', KEYS[1], ARGV[1])
end
return 1
