-- KEYS: the locks   ARGV: 1 value 2 ttl_ms 3 again
local free, ours = missing(KEYS, ARGV[1], ARGV[3])
if not free then return ours end
local locks = {}
for _, i in ipairs(free) do locks[#locks + 1] = KEYS[i] end
local set = set_all(locks, ARGV[1], ARGV[2])
if set.err then return set end
for _, lock in ipairs(ours) do
  if redis.call('PTTL', lock) < tonumber(ARGV[2]) then redis.call('PEXPIRE', lock, ARGV[2]) end
end
return set
