-- KEYS: 1 lock   ARGV: 1 token 2 ttl_ms
local value = redis.pcall('GET', KEYS[1])
if value == ARGV[1] then
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
  return 1
end
return refusal(KEYS[1], value)
