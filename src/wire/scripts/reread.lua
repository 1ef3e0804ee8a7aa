-- KEYS: 1 lock   ARGV: 1 value 2 ttl_ms
local lock, value = KEYS[1], ARGV[1]
local last, now, its = find(lock, value)
if not last then return now end
if its < now then return {-2} end
return keep(lock, value, now + ARGV[2], last, its) or 1
