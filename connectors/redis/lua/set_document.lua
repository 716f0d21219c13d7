-- Replaces a document. The old one is removed first, so that this works even when Redis is full: then Redis refuses a
-- script whose first write needs memory, but not one whose first write removes something.
-- KEYS[1]  string  the document
-- ARGV[1]  string  the new content
-- ARGV[2]  integer the milliseconds after which it expires; 0: never
redis.call('DEL', KEYS[1])
if tonumber(ARGV[2]) > 0 then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
else
  redis.call('SET', KEYS[1], ARGV[1])
end
return 1
