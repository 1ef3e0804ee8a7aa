-- KEYS: 1 lock   ARGV: 1 value 2 ttl_ms
local lock, value = KEYS[1], ARGV[1]
local last, now, its = find(lock, value)
if not last then return now end
if its < now then return {-2} end
local ends = now + ARGV[2]
redis.call('ZREMRANGEBYSCORE', lock, '-inf', '(' .. whole(now))
return keep(lock, value, ends, last, its) or 1
