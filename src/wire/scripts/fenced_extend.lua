-- KEYS: 1 lock 2 counter 3 marker   ARGV: 1 value 2 ttl_ms 3 token 4 idle_ms
local value = redis.pcall('GET', KEYS[1])
if value == ARGV[1] then
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
  redis.call('PEXPIRE', KEYS[2], ARGV[4])
  return 1
end
if value then return refusal(KEYS[1], value) end
if redis.pcall('GET', KEYS[2]) ~= ARGV[3] then return {-2} end
local run, open = string.match(redis.call('GET', KEYS[3]) or '', '^([^|]+)|[^|]+|(%d+)|%l+$')
if not run or run ~= process() or tonumber(open) >= tonumber(ARGV[3]) then return {-2} end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
return 1
