-- Replaces a document. It is removed first: a script that starts by removing something is not refused when Redis is full.
-- KEYS[1]  string  the document
-- ARGV[1]  string  its new content
-- ARGV[2]  integer the milliseconds after which it expires; 0: never
redis.call('DEL', KEYS[1])
if tonumber(ARGV[2]) > 0 then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
else
  redis.call('SET', KEYS[1], ARGV[1])
end
return 1
